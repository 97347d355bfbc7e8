"""Which environment a command runs in: what was said, what the script and its folder say, what is active."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.client.environment import Environment, find_environment
from stoker.core.errors import BadSpec

COMMAND = ["python", "train.py"]
INLINE = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "rich",\n# ]\n# ///\nprint(1)\n'


@pytest.fixture
def active(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell in which an environment is active."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return {"VIRTUAL_ENV": str(tmp_path / "env")}


def the_folder(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    for name, text in {"train.py": "print(1)\n", **files}.items():
        (folder / name).write_text(text)
    return folder


def test_a_plain_folder_asks_for_nothing(tmp_path: Path) -> None:
    assert find_environment(COMMAND, the_folder(tmp_path), variables={}) == Environment()
    assert Environment().fields() == {}


def test_stokers_own_environment_is_not_another_one(tmp_path: Path) -> None:
    assert find_environment(COMMAND, the_folder(tmp_path), variables={"VIRTUAL_ENV": sys.prefix}) == Environment()


def test_the_first_that_applies_counts(tmp_path: Path, active: dict[str, str]) -> None:
    pyproject = {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\ndependencies = ["click>=8"]\n'}
    folder = the_folder(tmp_path, **pyproject)
    env = os.path.join(active["VIRTUAL_ENV"], "bin", "python")
    found = find_environment(COMMAND, folder, variables=active)
    assert (found.python, found.requirements) == (env, ("click>=8",))
    assert found.why == f"pyproject.toml (1 requirement) on the active environment {active['VIRTUAL_ENV']}"
    the_folder(tmp_path, **{"requirements.txt": "tqdm  # bars\n\n# nothing\nnumpy>=1.20; python_version > '3'\n"})
    found = find_environment(COMMAND, folder, variables=active)
    assert found.requirements == ("tqdm", "numpy>=1.20; python_version > '3'")
    the_folder(tmp_path, **{"train.py": INLINE})
    found = find_environment(COMMAND, folder, variables=active)
    assert (found.python, found.requirements) == (">=3.11", ("rich",))
    other = tmp_path / "other.txt"
    other.write_text("six\n")
    found = find_environment(
        COMMAND, folder, python="stoker", requirements=[other], packages=["attrs"], variables=active
    )
    assert (found.python, found.requirements) == ("", ("six", "attrs"))
    assert found.why == f"{other} and --with (2 requirements) on Stoker's own Python"


def test_a_lock_pins_everything(tmp_path: Path) -> None:
    folder = the_folder(
        tmp_path,
        **{
            "pyproject.toml": '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["six"]\n',
            "uv.lock": 'version = 1\nrequires-python = ">=3.11"\n[[package]]\nname = "x"\nversion = "1"\n'
            'source = { virtual = "." }\ndependencies = [{ name = "six" }]\n[package.metadata]\n'
            'requires-dist = [{ name = "six" }]\n[[package]]\nname = "six"\nversion = "1.16.0"\n'
            'source = { registry = "https://example.invalid/simple" }\n'
            'sdist = { url = "https://example.invalid/six-1.16.0.tar.gz", hash = "sha256:' + "0" * 64 + '" }\n',
        },
    )
    assert find_environment(COMMAND, folder, variables={}).requirements == ("six==1.16.0",)
    (folder / "uv.lock").write_text("nonsense")
    with pytest.raises(BadSpec, match=r"uv\.lock"):
        find_environment(COMMAND, folder, variables={})


def test_files_name_other_files(tmp_path: Path) -> None:
    folder = the_folder(
        tmp_path,
        **{
            "requirements.txt": "-r base.txt\n--extra-index-url https://example.invalid/simple\nb\\\n>=1\n",
            "base.txt": "a\n",
        },
    )
    assert find_environment(COMMAND, folder, variables={}).requirements == (
        "a",
        "--extra-index-url https://example.invalid/simple",
        "b >=1",
    )


def installed(env: str, name: str, version: str, **files: str) -> None:
    """Put a package's record into an environment, as an installer leaves it."""
    lib = f"python{sys.version_info.major}.{sys.version_info.minor}"
    info = Path(env, "lib", lib, "site-packages", f"{name}-{version}.dist-info")
    info.mkdir(parents=True)
    for file, text in {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", **files}.items():
        (info / file).write_text(text)


def test_an_active_environment_is_made_again_on_another_machine(tmp_path: Path, active: dict[str, str]) -> None:
    env = active["VIRTUAL_ENV"]
    Path(env, "pyvenv.cfg").write_text(
        f"home = {Path(sys.executable).resolve().parent}\ninclude-system-site-packages = false\n"
    )
    installed(env, "torch", "2.1.0+cu121")
    installed(env, "six", "1.16.0")
    installed(env, "Tqdm_Extra", "1")
    installed(env, "mine", "1", **{"direct_url.json": '{"url": "file:///mine", "dir_info": {"editable": true}}'})
    installed(env, "numpy", "1.26.4", INSTALLER="conda\n", **{"direct_url.json": '{"url": "file:///croot/numpy"}'})
    vcs = '{"url": "https://example.invalid/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
    installed(env, "fork", "1", **{"direct_url.json": vcs})
    folder = the_folder(tmp_path, **{"requirements.txt": "tqdm.extra>2\n"})
    found = find_environment(COMMAND, folder, variables=active, runs_here=lambda: False)
    assert found.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    fork = "fork @ git+https://example.invalid/x.git@abc"
    assert found.requirements == ("tqdm.extra>2", fork, "numpy==1.26.4", "six==1.16.0", "torch==2.1.0")
    assert found.why == (
        f"requirements.txt (1 requirement) on Python {found.python} with 4 packages of the active environment {env},"
        " without mine"
    )
    (folder / "requirements.txt").write_text("six==1 --hash=sha256:" + "0" * 64 + "\n")
    found = find_environment(COMMAND, folder, variables=active, runs_here=lambda: False)
    assert len(found.requirements) == 1, "a file with hashes names all there is"
    assert find_environment(COMMAND, folder, python="stoker", variables=active, runs_here=lambda: False).python == ""


def test_an_active_environment_that_cannot_run_is_said(tmp_path: Path, active: dict[str, str]) -> None:
    python = Path(active["VIRTUAL_ENV"], "bin", "python")
    python.unlink()
    python.symlink_to("/bin/true")
    with pytest.raises(BadSpec, match="cannot list its packages"):
        find_environment(COMMAND, the_folder(tmp_path), variables=active, runs_here=lambda: False)


@pytest.mark.parametrize("given", ["PATH", "FOLDER", "3.12", ">=3.11,<3.13"])
def test_what_is_asked_for_goes_before_what_is_active(tmp_path: Path, active: dict[str, str], given: str) -> None:
    env = active["VIRTUAL_ENV"]
    asked = {"PATH": f"{env}/bin/python", "FOLDER": env}.get(given, given)
    found = find_environment(COMMAND, the_folder(tmp_path), python=asked, variables=active)
    assert found.python == (given if given[0] in "3>" else f"{env}/bin/python")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-e .\n", "line 1 '-e .' names a path of one machine"),
        ("six\n./local\n", "line 2 './local' names a path"),
        ("six @ file:///x\n", "names a path"),
        ("--trusted-host x\n", "--trusted-host is not known here"),
        ("-r missing.txt\n", "missing.txt cannot be read"),
        ("\x01\n", "characters"),
    ],
)
def test_what_cannot_be_had_elsewhere_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    folder = the_folder(tmp_path, **{"requirements.txt": text})
    with pytest.raises(BadSpec) as caught:
        find_environment(COMMAND, folder, variables={})
    assert told in " ".join(f"{v.field} {v.description}" for v in caught.value.violations)


@pytest.mark.parametrize(
    "script", ["# /// script\n# dependencies = 3\n# ///\n", "# /// script\n# [\n# ///\n", INLINE + INLINE]
)
def test_inline_metadata_that_says_nothing_is_refused(tmp_path: Path, script: str) -> None:
    with pytest.raises(BadSpec):
        find_environment(COMMAND, the_folder(tmp_path, **{"train.py": script}), variables={})


@pytest.mark.parametrize("python", ["nope", "3.x", "./missing/python", "/etc"])
def test_what_is_no_python_is_refused(tmp_path: Path, python: str) -> None:
    with pytest.raises(BadSpec):
        find_environment(COMMAND, the_folder(tmp_path), python=python, variables={})


def test_the_interpreter_of_an_active_environment_runs(active: dict[str, str]) -> None:
    assert subprocess.run([f"{active['VIRTUAL_ENV']}/bin/python", "-c", "1"]).returncode == 0
