"""Packages and Pythons of one's own, by the command line, in the sandbox that this machine gives."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stoker.client.environment import find_environment
from stoker.client.uploads import Progress, upload_folder
from tests.conftest import Server

pytestmark = pytest.mark.live

VERSION = ".".join(map(str, sys.version_info[:2]))
SETUP = """
from setuptools import setup
commands = ["mytool = mylibrary:main"]
setup(name="mylibrary", version="{}", py_modules=["mylibrary"], entry_points={{"console_scripts": commands}})
"""
LIBRARY = "version = {!r}\ndef main():\n    print('tool of', version)\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two versions of a package that no index has."""
    house = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        source = tmp_path_factory.mktemp("source")
        (source / "setup.py").write_text(SETUP.format(version))
        (source / "mylibrary.py").write_text(LIBRARY.format(version))
        command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(house)]
        subprocess.run(command, cwd=source, check=True, capture_output=True)
    return house


def the_project(folder: Path, wheels: Path, **files: str) -> str:
    """A folder with a script that needs the package. Returns the line that names where it is."""
    (folder / "train.py").write_text(files.pop("script", "import mylibrary\nprint('has', mylibrary.version)\n"))
    for name, text in files.items():
        (folder / name.replace("_txt", ".txt")).write_text(text)
    return f"--no-index --find-links {wheels}\n"


TOGETHER = """
import mylibrary, os, time
print("has", mylibrary.version, flush=True)
folder, rank, nodes = (os.environ["STOKER_" + name] for name in ("JOB_DIR", "NODE_RANK", "NUM_NODES"))
open(os.path.join(folder, "ran-" + rank), "w").close()
while not all(os.path.exists(os.path.join(folder, f"ran-{other}")) for other in range(int(nodes))):
    time.sleep(0.05)  # the job is over when its chief is
"""


def test_requirements_of_the_folder_are_installed_once(server: Server, tmp_path: Path, wheels: Path) -> None:
    line = the_project(tmp_path, wheels, script=TOGETHER)
    (tmp_path / "requirements.txt").write_text(f"{line}mylibrary<2  # the old one\n")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = server.cli("run", "--workers=1", f"--job-dir={tmp_path}/first", "--", "python", "train.py", cwd=tmp_path)
    assert first.returncode == 0 and first.stdout.count("has 1.0") == 2, first.stdout + first.stderr
    assert "environment: requirements.txt (1 requirement) on Stoker's own Python" in first.stderr
    assert first.stderr.count("installed mylibrary==1.0") == 1, "one replica installs for both"
    second = server.cli("run", f"--job-dir={tmp_path}/second", "--", "python", "train.py", cwd=tmp_path)
    assert "has 1.0" in second.stdout and "installed" not in second.stderr
    tool = server.cli("run", "--", "mytool", cwd=tmp_path)
    assert "tool of 1.0" in tool.stdout and "installed" not in tool.stderr, "its commands are on the path"


def test_a_training_job_brings_the_requirements_beside_its_package(
    server: Server, tmp_path: Path, wheels: Path
) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text("import mylibrary\nprint('has', mylibrary.version)\n")
    file = next(wheels.glob("mylibrary-1.0-*.whl"))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(wheels))
    flags = ("--package-path=trainer", "--module-name=trainer.task", "--region=us-central1", "--stream-logs")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as index:
        threading.Thread(target=index.serve_forever, daemon=True).start()
        (tmp_path / "requirements.txt").write_text(f"mylibrary @ http://127.0.0.1:{index.server_port}/{file.name}\n")
        done = server.cli("jobs", "submit", "training", "brings", *flags, cwd=tmp_path)
        index.shutdown()
    assert "has 1.0" in done.stdout and "environment: requirements.txt (1 requirement)" in done.stderr, done.stderr


def test_an_empty_environment_of_a_version(server: Server, tmp_path: Path, wheels: Path) -> None:
    line = the_project(tmp_path, wheels, script="import sys, mylibrary\nprint('has', mylibrary.version, sys.version)\n")
    (tmp_path / "needs.in").write_text(f"{line}mylibrary\n")
    flags = (f"--python={VERSION}", "--requirements=needs.in")
    done = server.cli("run", *flags, "--", "python", "train.py", cwd=tmp_path)
    assert f"has 2.0 {VERSION}." in done.stdout, done.stdout + done.stderr
    bare = server.cli("run", f"--python={VERSION}", "--", "python", "-c", "import click", cwd=tmp_path)
    assert bare.returncode == 1 and "No module named 'click'" in bare.stderr


def test_an_active_environment_is_made_again_on_another_machine(server: Server, tmp_path: Path, wheels: Path) -> None:
    uv, env = str(Path(sys.executable).with_name("uv")), str(tmp_path / "env")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, env], check=True)
    install = [uv, "pip", "install", "-q", "--python", f"{env}/bin/python", "--no-index", f"--find-links={wheels}"]
    subprocess.run([*install, "mylibrary<2"], check=True)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "requirements.txt").write_text(the_project(folder, wheels))
    command = ["python", "train.py"]
    found = find_environment(command, folder, variables={"VIRTUAL_ENV": env}, runs_here=lambda: False)
    shutil.rmtree(env)  # nothing of it is there
    source = upload_folder(server.client, folder, Progress())
    job = server.client.run("local", {"name": "again", "command": command, "source": source, **found.fields()})
    ended = server.cli("logs", "-f", job["name"])
    assert "has 1.0" in ended.stdout, ended.stdout + ended.stderr


def test_what_fits_no_way_says_the_cause_and_what_to_do(server: Server, tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "requirements.txt").write_text(the_project(tmp_path, wheels) + "mylibrary>1\n")
    done = server.cli("run", "--with=mylibrary==1.0", "--", "python", "train.py", cwd=tmp_path)
    assert done.returncode == 1 and "mylibrary==1.0" in done.stderr and "--python VERSION" in done.stderr
    assert "not tried again" in done.stderr and "Traceback" not in done.stderr


def test_an_interpreter_that_is_gone_is_said(server: Server, tmp_path: Path) -> None:
    job = server.client.run("local", {"name": "gone", "command": ["python", "-c", "1"], "python": "/no/such/python"})
    ended = server.cli("logs", "-f", job["name"])
    assert "there is no interpreter /no/such/python on this machine" in ended.stdout + ended.stderr
