"""The user's packages: installed over the runtime's environment by content, or refused with the installer's own words."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from stoker.runtime.archive import BadArchive
from stoker.runtime.environment import Installer, InstallFailed
from stoker.runtime.folder import Folder
from stoker.runtime.sandbox import Sandbox

UV = os.path.join(os.path.dirname(sys.executable), "uv")
SETUP = """from setuptools import setup
setup(name={name!r}, version={version!r}, packages=[{name!r}], install_requires={needs!r})
"""


def an_sdist(folder: Path, name: str = "mytrainer", version: str = "1.0", needs: list[str] | None = None) -> str:
    """A source distribution with one module, `task`."""
    source = folder / f"{name}-src"
    (source / name).mkdir(parents=True)
    (source / name / "__init__.py").touch()
    (source / name / "task.py").write_text(f"print({version!r})")
    (source / "setup.py").write_text(SETUP.format(name=name, version=version, needs=needs or []))
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return str(folder / f"{name}-{version}.tar.gz")


def ready(tmp_path: Path, *packages: str, said: list[str] | None = None, give_up: bool = False) -> str:
    sandbox = Sandbox({}, Folder(str(tmp_path)))
    installer = Installer(sys.executable, UV, (said if said is not None else []).append, lambda: give_up, sandbox)
    return installer.prepare(packages, str(tmp_path / "cache"))


def printed(site: str, module: str) -> str:
    command = [sys.executable, "-m", module]
    return subprocess.run(
        command, env={"PYTHONPATH": site}, capture_output=True, text=True, check=True, cwd="/"
    ).stdout.strip()


def test_no_packages_need_no_folder(tmp_path: Path) -> None:
    assert ready(tmp_path) == ""


def test_a_package_is_installed_once(tmp_path: Path) -> None:
    sdist, said = an_sdist(tmp_path), []
    site = ready(tmp_path, sdist, said=said)
    assert printed(site, "mytrainer.task") == "1.0"
    assert ready(tmp_path, sdist, said=said) == site
    assert len(said) == 1 and "installed mytrainer-1.0.tar.gz" in said[0]


def test_another_content_is_another_folder(tmp_path: Path) -> None:
    first = ready(tmp_path, an_sdist(tmp_path))
    second = ready(tmp_path, an_sdist(tmp_path / "other", version="2.0"))
    assert first != second
    assert (printed(first, "mytrainer.task"), printed(second, "mytrainer.task")) == ("1.0", "2.0")


def test_what_the_runtime_has_is_not_installed_again(tmp_path: Path) -> None:
    site = ready(tmp_path, an_sdist(tmp_path, needs=["click"]))
    assert not os.path.exists(os.path.join(site, "click"))


def test_a_package_may_need_another_of_the_list(tmp_path: Path) -> None:
    library = an_sdist(tmp_path, "mylibrary")
    site = ready(tmp_path, library, an_sdist(tmp_path, "mytrainer"))
    assert printed(site, "mylibrary.task") == "1.0" and printed(site, "mytrainer.task") == "1.0"


def test_a_requirement_that_cannot_be_had_fails_with_the_installers_words(tmp_path: Path) -> None:
    sdist, said = an_sdist(tmp_path, needs=["click==0.0.0.1"]), []
    with pytest.raises(InstallFailed, match=r"click==0\.0\.0\.1"):
        ready(tmp_path, sdist, said=said)
    assert "trying once more" in said[0]


def test_a_package_that_does_not_build_fails_with_its_own_words(tmp_path: Path) -> None:
    sdist = Path(an_sdist(tmp_path))
    source = tmp_path / "mytrainer-src"
    (source / "setup.py").write_text("raise SystemExit('my setup is broken')")
    with tarfile.open(sdist, "w:gz") as tar:
        tar.add(source / "setup.py", "mytrainer-1.0/setup.py")
    with pytest.raises(InstallFailed, match="my setup is broken"):
        ready(tmp_path, str(sdist))


def test_a_failed_install_is_not_taken_for_a_finished_one(tmp_path: Path) -> None:
    sdist = an_sdist(tmp_path, needs=["click==0.0.0.1"])
    for _ in range(2):
        with pytest.raises(InstallFailed):
            ready(tmp_path, sdist)


def test_what_is_no_package_is_refused_before_the_installer_sees_it(tmp_path: Path) -> None:
    (tmp_path / "x-1.0.tar.gz").write_bytes(b"nonsense")
    with pytest.raises(BadArchive):
        ready(tmp_path, str(tmp_path / "x-1.0.tar.gz"))


def test_packages_that_need_each_other_need_nobody_else(tmp_path: Path) -> None:
    library = an_sdist(tmp_path, "my-library".replace("-", "_"))
    trainer = an_sdist(tmp_path, needs=["My.Library"])
    site = ready(tmp_path, library, trainer)
    assert printed(site, "my_library.task") == "1.0" and printed(site, "mytrainer.task") == "1.0"


def test_a_requirement_given_by_address_is_installed(tmp_path: Path) -> None:
    library = an_sdist(tmp_path, "mylibrary")
    site = ready(tmp_path, an_sdist(tmp_path, needs=[f"mylibrary @ file://{library}"]))
    assert printed(site, "mylibrary.task") == "1.0"


def test_told_to_give_up_it_leaves_no_process(tmp_path: Path) -> None:
    sdist = Path(an_sdist(tmp_path))
    with tarfile.open(sdist, "w:gz") as tar:
        (tmp_path / "setup.py").write_text("import time; time.sleep(300)")
        tar.add(tmp_path / "setup.py", "mytrainer-1.0/setup.py")
    with pytest.raises(InstallFailed, match="stopped while it installed"):
        ready(tmp_path, str(sdist), give_up=True)


def installed(tmp_path: Path, *lines: str, said: list[str] | None = None) -> str:
    sandbox = Sandbox({}, Folder(str(tmp_path)))
    installer = Installer(sys.executable, UV, (said if said is not None else []).append, lambda: False, sandbox)
    return installer.prepare([], str(tmp_path / "cache"), lines)


def a_wheelhouse(tmp_path: Path, *names: str) -> str:
    """The line by which packages are looked for in a folder, and nowhere else."""
    house = tmp_path / "wheels"
    house.mkdir(exist_ok=True)
    for name in names:
        an_sdist(house, name)
        subprocess.run(
            [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(house)],
            cwd=house / f"{name}-src",
            check=True,
            capture_output=True,
        )
    return f"--no-index --find-links {house}"


def test_requirements_are_installed_once_and_what_is_there_is_not(tmp_path: Path) -> None:
    index, said = a_wheelhouse(tmp_path, "mylibrary"), []
    site = installed(tmp_path, index, "mylibrary", "click", said=said)
    assert printed(site, "mylibrary.task") == "1.0" and not os.path.exists(os.path.join(site, "click"))
    assert installed(tmp_path, index, "mylibrary", "click", said=said) == site
    assert len(said) == 1 and "installed mylibrary==1.0" in said[0]


def test_requirements_that_fit_no_way_are_told_with_the_cause_and_what_to_change(tmp_path: Path) -> None:
    with pytest.raises(InstallFailed) as caught:
        installed(tmp_path, a_wheelhouse(tmp_path, "mylibrary"), "mylibrary==1.0", "mylibrary==2.0")
    first, *_, last = str(caught.value).splitlines()
    assert "mylibrary==2.0" in first and "--python VERSION" in last


def test_an_environment_of_a_version_is_made_once_and_holds_nothing(tmp_path: Path) -> None:
    version, said = ".".join(map(str, sys.version_info[:2])), []
    for _ in range(2):
        installer = Installer(sys.executable, UV, said.append, lambda: False, Sandbox({}, Folder(str(tmp_path))))
        python = installer.make_interpreter(version, str(tmp_path / "cache"))
        asked = [python, "-c", "import importlib.util as u; print(u.find_spec('click'))"]
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "None\n"
    assert len(said) == 1 and f"Python {version}" in said[0]


def test_a_version_that_is_not_there_is_told(tmp_path: Path) -> None:
    installer = Installer(sys.executable, UV, [].append, lambda: False, Sandbox({}, Folder(str(tmp_path))))
    with pytest.raises(InstallFailed, match=r"4\.77"):
        installer.make_interpreter("4.77", str(tmp_path / "cache"))
