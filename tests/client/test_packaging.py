"""Packing: what goes in, what stays out, and that the same content has the same name."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from stoker.client.packaging import MOST_SOURCE_BYTES, look_through, pack_folder, pack_trainer, shown_size, without
from stoker.core.errors import BadSpec


def write(root: Path, *names: str, content: str = "") -> Path:
    """Files of this content."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content or f"# {name}\n")
    return root


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder, with what would change if it were written to."""
    return {str(p.relative_to(root)): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in sorted(root.rglob("*"))}


def members(path: Path) -> set[str]:
    """The files of an archive, without the folder that an sdist puts them in and what the builder adds."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    with tarfile.open(path) as tar:
        names = {m.name.partition("/")[2] for m in tar if m.isfile()}
        assert not [m.name for m in tar if m.issym() or m.islnk()]
    return {n for n in names if ".egg-info" not in n and n not in ("PKG-INFO", "setup.cfg", "setup.py", "MANIFEST.in")}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder for what is made."""
    path = tmp_path / "target"
    path.mkdir()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a trainer package."""
    return write(tmp_path / "project", "trainer/__init__.py", "trainer/task.py", "trainer/data/labels.csv", "README.md")


# A folder.


def test_version_control_environments_and_caches_stay_out(tmp_path: Path, target: Path) -> None:
    root = write(
        tmp_path / "code",
        *("train.py", "env/__init__.py", "env/game.py", ".env", "lib/model.py"),
        *(
            ".git/config",
            "venv/bin/python",
            "lib/__pycache__/x.pyc",
            "node_modules/x.js",
            ".ssh/id_rsa",
            "lib/x.egg-info/a",
        ),
        *("my_environment/pyvenv.cfg", "my_environment/lib/x.py", "conda/conda-meta/history", "conda/lib/y.py"),
    )
    packed = pack_folder(root, target)
    assert members(packed.path) == {"train.py", "env/__init__.py", "env/game.py", ".env", "lib/model.py"}
    assert (packed.files, packed.size_bytes) == (5, packed.path.stat().st_size)
    out = {".git", "venv", "lib/__pycache__", "node_modules", ".ssh", "lib/x.egg-info", "my_environment", "conda"}
    assert set(packed.skipped) == out


def test_the_same_content_has_the_same_name_whenever_and_wherever_it_was_written(tmp_path: Path, target: Path) -> None:
    first, second = (write(tmp_path / where, "a.py", "b/c.py") for where in ("one", "two"))
    os.utime(first / "a.py", (1, 1))
    digests = []
    for n, root in enumerate((first, second)):
        (target / str(n)).mkdir()
        packed = pack_folder(root, target / str(n))
        digests.append((packed.sha256, packed.path.read_bytes()))
    assert digests[0] == digests[1]
    for change in (lambda: write(second, "a.py", content="other"), lambda: (second / "a.py").rename(second / "d.py")):
        change()
        (target / "x").mkdir(exist_ok=True)
        assert pack_folder(second, target / "x").sha256 != digests[0][0]


def test_a_program_stays_executable(tmp_path: Path, target: Path) -> None:
    root = write(tmp_path / "code", "run.sh")
    before = pack_folder(root, target).sha256
    (root / "run.sh").chmod(0o755)
    packed = pack_folder(root, target)
    with zipfile.ZipFile(packed.path) as archive:
        assert stat.S_IMODE(archive.getinfo("run.sh").external_attr >> 16) == 0o755
    assert packed.sha256 != before


def test_links_that_lead_outside_are_not_packed_and_named(tmp_path: Path, target: Path) -> None:
    write(tmp_path / "elsewhere", "secret", content="secret")
    root = write(tmp_path / "code", "train.py", "real/x.py")
    (root / "stolen").symlink_to(tmp_path / "elsewhere/secret")
    (root / "stolen_folder").symlink_to(tmp_path / "elsewhere")
    (root / "up").symlink_to("..")
    (root / "round").symlink_to(".")
    (root / "dangling").symlink_to("nothing")
    (root / "alias.py").symlink_to("train.py")
    packed = pack_folder(root, target)
    assert members(packed.path) == {"train.py", "real/x.py", "alias.py"}
    assert set(packed.skipped) == {
        "stolen (a link that leads outside)",
        "stolen_folder (a link)",
        "up (a link)",
        "round (a link)",
    }
    with zipfile.ZipFile(packed.path) as archive:
        assert archive.read("alias.py") == b"# train.py\n"


def test_pipes_and_sockets_stay_out(tmp_path: Path, target: Path) -> None:
    root = write(tmp_path / "code", "train.py")
    os.mkfifo(root / "pipe")
    assert members(pack_folder(root, target).path) == {"train.py"}


def test_names_of_every_script(tmp_path: Path, target: Path) -> None:
    root = write(tmp_path / "code", "größe.py", "データ　セット.csv", "a b.py", "a'b.py")
    assert members(pack_folder(root, target).path) == {"größe.py", "データ　セット.csv", "a b.py", "a'b.py"}


@pytest.mark.parametrize("name", ["a\\b", "a\nb", "a\x1bb"])
def test_a_name_that_cannot_be_packed_is_told(tmp_path: Path, target: Path, name: str) -> None:
    root = write(tmp_path / "code", name)
    with pytest.raises(BadSpec, match="rename it"):
        pack_folder(root, target)


def test_a_name_that_is_no_text_is_told(tmp_path: Path, target: Path) -> None:
    root = write(tmp_path / "code", "a")
    os.rename(root / "a", os.fsencode(root) + b"/\xff")
    with pytest.raises(BadSpec, match="rename it"):
        pack_folder(root, target)


def test_what_cannot_be_read_is_told(tmp_path: Path, target: Path) -> None:
    with pytest.raises(BadSpec, match=r"nowhere cannot be read"):
        pack_folder(tmp_path / "nowhere", target)


def test_too_much_is_refused_with_the_largest(tmp_path: Path, target: Path) -> None:
    root = write(tmp_path / "code", "train.py")
    with open(root / "weights.bin", "wb") as file:
        file.truncate(MOST_SOURCE_BYTES)  # a hole: it takes no room
    with pytest.raises(BadSpec) as refused:
        pack_folder(root, target)
    assert "weights.bin (2.1 GB)" in str(refused.value) and "the code alone" in refused.value.fix
    assert not list(target.iterdir())


def test_an_empty_folder_is_packed(tmp_path: Path, target: Path) -> None:
    (tmp_path / "code").mkdir()
    assert pack_folder(tmp_path / "code", target).files == 0


def test_the_largest_are_named(tmp_path: Path) -> None:
    root = write(write(tmp_path / "code", "small"), "large", content="x" * 1000)
    assert look_through(root, "folder").largest() == [("large", 1000), ("small", len("# small\n"))]


# A trainer.


def test_a_trainer_without_a_setup_gets_one(project: Path, target: Path) -> None:
    before = snapshot(project)
    packed = pack_trainer(project / "trainer", target)
    assert packed.path.name == "trainer-0.0.0.tar.gz"
    assert members(packed.path) == {"trainer/__init__.py", "trainer/task.py", "trainer/data/labels.csv"}
    assert packed.files == 3
    assert snapshot(project) == before


def test_the_parents_setup_is_used(project: Path, target: Path) -> None:
    write(
        project,
        "setup.py",
        content="from setuptools import setup\nsetup(name='my-trainer', version='1.2', packages=['trainer'])\n",
    )
    write(project, ".git/config", "venv/pyvenv.cfg", "my_trainer.egg-info/PKG-INFO")
    before = snapshot(project)
    packed = pack_trainer(project / "trainer", target)
    assert packed.path.name == "my_trainer-1.2.tar.gz"
    assert {"trainer/__init__.py", "trainer/task.py"} <= members(packed.path)
    assert snapshot(project) == before


def test_the_parents_pyproject_gives_name_version_and_requirements(project: Path, target: Path) -> None:
    text = (
        "[project]\nname = 'told'\nversion = '3.4'\ndependencies = ['x>=1']\n[build-system]\nrequires = ['hatchling']\n"
    )
    write(project, "pyproject.toml", content=text)
    write(project, "tests/__init__.py", "data/big.csv", "notebooks/x.ipynb")  # several folders are no riddle
    packed = pack_trainer(project / "trainer", target)
    assert packed.path.name == "told-3.4.tar.gz"
    assert members(packed.path) == {"trainer/__init__.py", "trainer/task.py", "trainer/data/labels.csv"}
    with tarfile.open(packed.path) as tar:
        about = tar.extractfile("told-3.4/PKG-INFO")
        assert about is not None and b"Requires-Dist: x>=1" in about.read()


def test_a_pyproject_that_tells_setuptools_more_is_used_itself(project: Path, target: Path) -> None:
    text = "[project]\nname = 'told'\nversion = '1'\n[tool.setuptools]\npackages = ['trainer', 'more']\n"
    write(project, "pyproject.toml", content=text)
    write(project, "more/__init__.py")
    before = snapshot(project)
    assert {"more/__init__.py", "pyproject.toml"} <= members(pack_trainer(project / "trainer", target).path)
    assert snapshot(project) == before


def test_a_pyproject_for_other_tools_alone_is_none(project: Path, target: Path) -> None:
    write(project, "pyproject.toml", content="[tool.ruff]\nline-length = 100\n")
    write(project, "tests/__init__.py", "data/x.csv")
    packed = pack_trainer(project / "trainer", target)
    assert packed.path.name == "trainer-0.0.0.tar.gz"
    assert members(packed.path) == {"trainer/__init__.py", "trainer/task.py", "trainer/data/labels.csv"}


def test_a_trainers_digest_is_that_of_its_content(project: Path, tmp_path: Path) -> None:
    digests = []
    for n in range(2):
        os.utime(project / "trainer/task.py", (n, n))
        (tmp_path / str(n)).mkdir()
        digests.append(pack_trainer(project / "trainer", tmp_path / str(n)).sha256)
    write(project, "trainer/task.py", content="print(2)\n")
    (tmp_path / "2").mkdir()
    assert digests[0] == digests[1] != pack_trainer(project / "trainer", tmp_path / "2").sha256


def test_links_out_of_a_trainer_are_not_packed(project: Path, target: Path, tmp_path: Path) -> None:
    write(tmp_path, "secret", content="secret")
    (project / "trainer/stolen").symlink_to(tmp_path / "secret")
    (project / "trainer/round").symlink_to("..")
    (project / "trainer/dangling").symlink_to("nothing")
    packed = pack_trainer(project / "trainer", target)
    assert members(packed.path) == {"trainer/__init__.py", "trainer/task.py", "trainer/data/labels.csv"}
    assert "stolen (a link that leads outside)" in packed.skipped


def test_what_is_no_package(project: Path, target: Path) -> None:
    for name, phrase in (("nothing", "is not a folder"), ("README.md", "is not a folder"), (".", "has no __init__.py")):
        with pytest.raises(BadSpec, match=phrase):
            pack_trainer(project / name, target)


def test_the_missing_init_is_told_how_to_make(project: Path, target: Path) -> None:
    (project / "trainer/__init__.py").unlink()
    with pytest.raises(BadSpec) as refused:
        pack_trainer(project / "trainer", target)
    assert refused.value.fix == f"touch {project / 'trainer/__init__.py'}"


@pytest.mark.parametrize(
    ("name", "text", "phrase"),
    [
        ("setup.py", "raise RuntimeError('I am broken')\n", "does not build: .*I am broken"),
        ("setup.py", "import sys\nsys.exit(3)\n", "does not build"),
        ("pyproject.toml", "[project\n", "cannot be read"),
        ("pyproject.toml", "[project]\nname = 'x'\nversion = '7'\n[tool.setuptools]\nx = 1\n", "does not build"),
    ],
)
def test_a_setup_that_does_not_work_is_told(project: Path, target: Path, name: str, text: str, phrase: str) -> None:
    write(project, name, content=text)
    with pytest.raises(BadSpec, match=f"(?s){phrase}") as refused:
        pack_trainer(project / "trainer", target)
    assert str(project / name) in str(refused.value)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (82_000, "82.0 KB"),
        (340_000_000, "340 MB"),
        (1.3e9, "1.3 GB"),
        (2e13, "20000 GB"),
    ],
)
def test_sizes(size: float, shown: str) -> None:
    assert shown_size(size) == shown


def test_what_was_left_out_in_short() -> None:
    assert without(["a/__pycache__"]) == without([]) == ""
    assert without([".git", "x/__pycache__", "venv"]) == " (without .git, venv)"
    assert without(list("abcdef")) == " (without a, b, c, d and 2 more)"
