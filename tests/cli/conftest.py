"""The command line in this process, and one server for all of its tests."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.cli import session
from stoker.cli.main import main
from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from tests.conftest import Server

FLAGS = ("--port=0", "--fake=10x4xT4,3xn1-highmem-8")


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Cli:
    """The command line, run in this process with a home of its own."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    home: Path
    folder: Path

    def __call__(self, *words: str, **environment: str) -> Ran:
        """Run it. `environment`: for this run only."""
        with self.monkeypatch.context() as patch:
            for name, value in {"STOKER_HOME": str(self.home), **environment}.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            session.config.cache_clear()
            self.capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(words)
        said = self.capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, said.out, said.err)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Cli]:
    """The command line, with a home that nobody has used and an empty folder to run in."""
    for name in [name for name in os.environ if name.startswith("STOKER_") or name in ("FORCE_COLOR", "NO_COLOR")]:
        monkeypatch.delenv(name)
    (tmp_path / "folder").mkdir()
    yield Cli(monkeypatch, capsys, tmp_path / "home", tmp_path / "folder")
    session.config.cache_clear()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the whole folder: each test has jobs of its own names."""
    home = tmp_path_factory.mktemp("home")
    (home / "config.yaml").write_text(f"job_folders: {tmp_path_factory.getbasetemp()}\n")
    config = read_config({"STOKER_HOME": str(home)})
    found = embedded.start(config, FLAGS)
    made = Server(home, found, Client(found.url, found.token), FLAGS)
    yield made
    made.cli("down", "--cancel-jobs")
    made.client.close()
    if embedded.is_locked(home):
        os.kill(made.found.pid, signal.SIGKILL)


@pytest.fixture
def served(cli: Cli, server: Server) -> Cli:
    """The command line at the home of the server."""
    return Cli(cli.monkeypatch, cli.capsys, server.home, cli.folder)


@pytest.fixture
def trainer(cli: Cli) -> Path:
    """A tiny trainer package in the folder."""
    package = cli.folder / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(TASK)
    return package


TASK = """
import os, sys

print("arguments", sys.argv[1:])
print("role", os.environ["STOKER_ROLE"], os.environ["STOKER_INDEX"])
if "--job-dir" in sys.argv:
    folder = sys.argv[sys.argv.index("--job-dir") + 1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.txt"), "w") as file:
        file.write("trained")
sys.exit(int(os.environ.get("CODE", "0")) if "--fail" not in sys.argv else 7)
"""


def on_a_terminal(server: Server, *words: str, **environment: str) -> str:
    """What a command writes on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.cli.main", *words],
        env={**{k: v for k, v in server.environment.items() if k != "NO_COLOR"}, "TERM": "xterm", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:
            break  # the other side has ended
        if not block:
            break
        seen += block
    os.close(ours)
    process.wait()
    return seen.decode().replace("\r\n", "\n")
