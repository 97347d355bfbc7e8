"""A server that starts in bad weather: no room on the disk, its database away, or without its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import Config, read_config
from stoker.core.errors import StokerError, Unavailable
from tests.conftest import wait_until
from tests.live.test_full_disk import fill, small
from tests.live.test_restart import COUNT
from tests.postgresql import PostgreSQL

__all__ = ["small"]
pytestmark = pytest.mark.live


@dataclass
class Home:
    """A home whose server is started and killed."""

    path: Path
    config: Config
    server: embedded.Found | None = None

    def up(self, *flags: str) -> Client:
        """Start the server."""
        self.server = embedded.start(self.config, ("--port=0", *flags))
        return Client(self.server.url, self.server.token)

    def kill(self) -> None:
        """kill -9."""
        assert self.server is not None
        os.kill(self.server.pid, signal.SIGKILL)
        wait_until(lambda: not embedded.is_locked(self.path))

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, on this home."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        environment = {**kept, "STOKER_HOME": str(self.path), "NO_COLOR": "1"}
        command = [sys.executable, "-m", "stoker.cli.main", *words]
        return subprocess.run(command, env=environment, cwd=self.path, capture_output=True, text=True, timeout=60)

    def log(self) -> str:
        """What the servers have logged."""
        return (self.path / "server.log").read_text()


def a_home(path: Path, **settings: object) -> Home:
    path.mkdir(exist_ok=True)
    (path / "config.yaml").write_text(json.dumps(settings))
    return Home(path, read_config({"STOKER_HOME": str(path)}))


@pytest.fixture
def homes() -> Iterator[list[Home]]:
    """Homes of a test: no server of theirs is left, and none has logged a traceback."""
    made: list[Home] = []
    yield made
    for home in made:
        if embedded.is_locked(home.path):
            home.cli("down", "--cancel-jobs")
        assert not embedded.is_locked(home.path)
        assert "Traceback" not in home.log()


def count_until(client: Client, name: str, flag: Path) -> None:
    """A job that prints until a file is there."""
    client.run("p", {"name": name, "command": ["python", "-c", COUNT, str(flag)]})
    wait_until(lambda: client.details("p", name)["state"] == "RUNNING")


def state(client: Client, name: str) -> str:
    return str(client.details("p", name)["state"])


def test_on_a_full_disk_it_starts_reads_and_says_why_nothing_new_is_taken(
    small: Path, tmp_path: Path, homes: list[Home]
) -> None:
    home, flag = a_home(small / "home", reserve_mb=9, job_folders=str(tmp_path)), tmp_path / "end"
    homes.append(home)
    client = home.up()
    count_until(client, "j", flag)
    wait_until((home.path / "ballast.bin").exists)
    filler = fill(small, 0)
    home.kill()

    # 1. What was kept back is enough to start, to read and to write down what runs; and new jobs are refused.
    client = home.up()
    assert not (home.path / "ballast.bin").exists()
    assert any("nearly full" in problem for problem in client.status()["problems"])
    assert state(client, "j") == "RUNNING" and list(client.stream("p", "j", follow=False))
    with pytest.raises(Unavailable, match="nearly full"):
        client.run("p", {"name": "refused", "command": ["true"]})
    home.kill()

    # 2. When that is used up as well: it waits in the open, and begins by itself.
    filler = filler.rename(small / "other")
    fill(small, 0)
    client = home.up()
    assert home.server is not None and home.server.waits
    for ask in (
        client.status,
        lambda: client.details("p", "j"),
        lambda: client.run("p", {"name": "k", "command": ["true"]}),
    ):
        with pytest.raises(Unavailable, match=r"this server waits.*full") as refused:
            ask()
        assert "free some disk space" in refused.value.fix
    assert "it waits" in home.cli("up").stderr + home.cli("up").stdout
    for file in (filler, small / "filler"):
        file.unlink()
    wait_until(lambda: _answers(client))
    assert client.status()["problems"] == [] and state(client, "j") == "RUNNING"
    wait_until((home.path / "ballast.bin").exists)
    flag.touch()
    wait_until(lambda: state(client, "j") == "SUCCEEDED")
    assert len(client.details("p", "j")["attempts"]) == 1


def _answers(client: Client) -> bool:
    try:
        return bool(client.status())
    except StokerError:
        return False


def test_a_database_that_is_away_is_waited_for_and_one_that_refuses_us_is_not(
    tmp_path: Path, homes: list[Home]
) -> None:
    with PostgreSQL() as database:
        wrong = a_home(tmp_path / "wrong", database=database.url.replace("/postgres?", "/nobodys?"))
        with pytest.raises(Unavailable, match='database "nobodys" does not exist'):
            wrong.up()
        database.stop()
        home = a_home(tmp_path / "home", database=database.url)
        homes.append(home)
        client = home.up()
        assert home.server is not None and "cannot be opened" in home.server.waits
        with pytest.raises(Unavailable, match="this server waits: the database cannot be opened") as refused:
            client.status()
        assert "goes on by itself" in refused.value.fix
        assert home.cli("status").returncode == 5
        assert "another server uses" in home.cli("up", "--foreground", "--port=0").stderr
        assert home.cli("down").returncode == 0 and not embedded.is_locked(home.path)

        client = home.up()
        database.start()
        wait_until(lambda: _answers(client))
        client.run("p", {"name": "j", "command": ["true"]})
        wait_until(lambda: state(client, "j") == "SUCCEEDED")
        waited = [line for line in home.log().splitlines() if "waiting, and trying again" in line]
        away = [line for line in waited if "starting up" not in line]  # the second may see it start, or not
        assert len(away) == 2 and len(waited) <= 3, "once a server and reason"
        assert home.cli("down").returncode == 0


def test_a_database_that_has_lost_its_end_ends_nobody_and_starts_nobody(tmp_path: Path, homes: list[Home]) -> None:
    home, flag = a_home(tmp_path / "home", job_folders=str(tmp_path)), tmp_path / "end"
    homes.append(home)
    client = home.up()
    client.run("p", {"name": "before", "command": ["true"]})
    wait_until(lambda: state(client, "before") == "SUCCEEDED")
    home.kill()  # what is in the database's log is taken up by the next server
    client = home.up()
    home.cli("down")
    kept = shutil.copy(home.path / "stoker.db", tmp_path / "kept.db")
    client = home.up()
    count_until(client, "running", flag)
    (running,) = client.details("p", "running")["attempts"]
    backup = tmp_path / "backup.tar.gz"
    assert home.cli("backup", str(backup)).returncode == 0

    def cut() -> None:
        """Let the database have lost everything since the copy."""
        for file in home.path.glob("stoker.db*"):
            file.unlink()
        shutil.copy(kept, home.path / "stoker.db")

    def lines() -> int:
        return (home.path / "runs/p/running.1/chief-0/log.jsonl").read_bytes().count(b"\n")

    # 1. It runs on, nothing new is taken, and it is told what to choose.
    home.kill()
    cut()
    client = home.up()
    (problem,) = client.status()["problems"]
    assert "p/running.1" in problem and "stoker restore FILE" in problem and "--forget-unknown" in problem
    with pytest.raises(Unavailable, match=r"p/running\.1"):
        client.run("p", {"name": "new", "command": ["true"]})
    count = lines()
    wait_until(lambda: lines() > count + 5)
    assert state(client, "before") == "SUCCEEDED"

    # 2. The backup knows it: it is taken over, without a line missing.
    home.cli("down")
    restored = home.cli("restore", str(backup), "--force")
    assert restored.returncode == 0, restored.stderr
    client = home.up()
    assert client.status()["problems"] == [] and state(client, "running") == "RUNNING"
    assert client.details("p", "running")["attempts"][0]["placed_at"] == running["placed_at"]

    # 3. Or it is gone on without.
    home.kill()
    cut()
    client = home.up("--forget-unknown")
    assert client.status()["problems"] == []
    assert not (home.path / "runs/p/running.1").exists()
    assert list(home.path.glob("unknown-*/runs/p/running.1/chief-0/log.jsonl"))
    flag.touch()
    client.run("p", {"name": "running", "command": ["python", "-c", COUNT, str(flag)]})
    wait_until(lambda: state(client, "running") == "SUCCEEDED")
    texts = [e["text"] for e in client.stream("p", "running", follow=False) if e["kind"] == "log"]
    assert texts == ["last 0"], "no line of the one before it"
