"""What a server and its supervisors write is closed to other users, file by file: a short list says what is not, and why."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from stoker.store.lead import close_home
from tests.conftest import Server, wait_until
from tests.engines.test_isolation import a_level

# Below the home, which is closed itself. What is of the site's data or of programs has the mode that they give it.
OPEN = {
    "buckets": "the same",
    "buckets/*": "data: programs of other users read them, by their names in a sandbox",
    "job-homes/*/*": "programs' own",
    "runs/*/work*": "programs' own; the folder is entered before the user is changed",
    "runs/*/beat*": "programs' own",
    "runs/*/environment*": "programs' own",
    "cache/environments/*/*": "the users' packages, installed by their owner's user",
    "cache/environments/????????????????????????????????": "the same, where a sandbox begins",
    "cache/files/*": "packages that another user installs",
    "cache/runtime-*.pyz": "what programs load of Stoker",
}
SCRIPT = """
import os
os.makedirs("made/below")
open("made/file", "w").close()
print(oct(os.umask(0)), flush=True)
"""


@pytest.fixture(params=["0", "1", "2"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server at a level, started by somebody whose files are open to all."""
    home = tmp_path / "home"
    a_level(int(request.param), home) if request.param != "0" else None
    config, flags = read_config({"STOKER_HOME": str(home), "STOKER_ISOLATION": request.param}), ("--port=0",)
    old = os.umask(0o002)
    os.environ["STOKER_ISOLATION"] = request.param
    try:
        found = embedded.start(config, flags)
    finally:
        os.umask(old)
        del os.environ["STOKER_ISOLATION"]
    made = Server(home, found, Client(found.url, found.token), flags)
    yield made
    made.client.close()
    made.cli("down", "--cancel-jobs")


def open_files(home: Path) -> list[str]:
    """What others could read or write if the home were open, and no row of the list says why."""
    found = []
    for path in (home, *home.rglob("*")):
        mode, name = stat.S_IMODE(path.lstat().st_mode), path.relative_to(home).as_posix()
        is_meant = any(fnmatch(name, pattern) for pattern in OPEN) or path.is_symlink()
        if mode & 0o077 and not is_meant:
            found.append(f"{name} {oct(mode)}")
    return found


def test_every_file_of_a_home_is_closed_but_those_that_are_listed(site: Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "mine.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "-m", "stoker.cli.main", "run", "--name", "looks", "--", sys.executable, "mine.py"],
        cwd=source,
        env=site.environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "0o2" in ran.stdout.split(), "a program has the mask that the server was started with"
    site.client.run("local", {"name": "fails", "command": ["sh", "-c", "exit 3"]})
    wait_until(lambda: site.client.details("local", "fails")["state"] == "FAILED")
    site.client.run("local", {"name": "stays", "command": ["sh", "-c", "echo here; exec sleep 600"]})
    wait_until(lambda: any(file.stat().st_size for file in site.home.glob("runs/local/stays.1/*/log.jsonl")))
    assert site.cli("backup", str(site.home / "backup.tar")).returncode == 0
    assert open_files(site.home) == []
    assert {"stoker.db", "server.log", "audit.log", "backup.tar"} <= {path.name for path in site.home.iterdir()}
    assert list(site.home.glob("runs/local/stays.1/*/log.jsonl")), "a log is there while its program runs"
    site.client.cancel("local", "stays")


def test_a_home_of_before_is_closed(tmp_path: Path) -> None:
    for name in ("stoker.db", "logs/log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o664)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    outside.chmod(0o755)
    (tmp_path / "link").symlink_to(outside)
    close_home(tmp_path)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (".", "stoker.db", "logs", "link")}
    assert modes == {".": 0o700, "stoker.db": 0o600, "logs": 0o700, "link": 0o755}
