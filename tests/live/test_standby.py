"""Two servers, one home: one leads, the other answers, and takes over when the first is gone, or hangs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.client.connection import client_of
from stoker.config import read_config
from stoker.core.errors import Unavailable
from tests.conftest import wait_until
from tests.live.test_restart import COUNT

pytestmark = pytest.mark.live

TAKEN_OVER_SECONDS = 10.0


@dataclass
class Two:
    """A server that leads, and one that stands by, with their clients."""

    home: Path
    first: embedded.Found
    second: embedded.Found
    leader: Client
    other: Client

    def run(self, name: str, flag: Path) -> None:
        """Let a job run that ends when a file is there."""
        self.leader.run("p", {"name": name, "command": ["python", "-c", COUNT, str(flag)]})
        wait_until(lambda: self.leader.details("p", name)["state"] == "RUNNING")

    def lines(self, name: str) -> list[str]:
        """What the job has printed so far, as the second server tells it."""
        return [e["text"] for e in self.other.stream("p", name, follow=False) if e["kind"] == "log"]

    def check_end(self, name: str, flag: Path) -> None:
        """Let the job end, and see that it was one attempt and that each line is there once."""
        count = len(self.lines(name))
        wait_until(lambda: len(self.lines(name)) > count)  # its supervisor has found the new leader
        flag.touch()
        wait_until(lambda: self.other.details("p", name)["state"] == "SUCCEEDED")
        found = self.lines(name)
        assert found == [f"line {n}" for n in range(len(found) - 1)] + [f"last {len(found) - 1}"]
        assert len(self.other.details("p", name)["attempts"]) == 1


@contextmanager
def two_servers(home: Path, database: Path | str) -> Iterator[Two]:
    home.mkdir()
    settings = {"job_folders": str(home.parent)} | ({"database": database} if isinstance(database, str) else {})
    (home / "config.yaml").write_text(json.dumps(settings))
    config = read_config({"STOKER_HOME": str(home)})
    first = embedded.start(config, ("--port=0",))
    second = embedded.start(config, ("--port=0",), standby=True)
    two = Two(home, first, second, Client(first.url, first.token), Client(second.url, second.token, seconds=5.0))
    try:
        assert first.url != second.url
        yield two
    finally:
        two.leader.close()
        two.other.close()
        for found in (first, second):
            try:
                os.kill(found.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_after_kill_9_the_other_takes_over(database: Path | str, tmp_path: Path) -> None:
    home, flag = tmp_path / "home", tmp_path / "end"
    with two_servers(home, database) as two:
        two.run("survivor", flag)
        status = two.other.status()
        assert (status["leads"], status["leader"]) == (False, two.first.url)
        assert two.leader.status()["leads"]
        wait_until(lambda: len(two.lines("survivor")) > 3)
        with pytest.raises(Unavailable, match="stands by") as refused:
            two.other.cancel("p", "survivor")
        assert two.first.url in refused.value.fix

        follower = client_of(config := read_config({"STOKER_HOME": str(home)}))
        events = follower.stream("p", "survivor")
        assert follower.url == two.first.url and next(events)
        os.kill(two.first.pid, signal.SIGKILL)
        wait_until(lambda: two.other.status()["leads"], TAKEN_OVER_SECONDS)
        found = embedded.find(config)
        assert found is not None and (found.url, found.pid) == (two.second.url, two.second.pid)
        two.check_end("survivor", flag)
        assert [event["kind"] for event in events][-1] == "end" and follower.url == two.second.url
        follower.close()


@pytest.mark.campaign
def test_who_hangs_leads_no_more_and_writes_nothing_when_it_wakes_up(postgresql_database: str, tmp_path: Path) -> None:
    flag = tmp_path / "end"
    with two_servers(tmp_path / "home", postgresql_database) as two:
        two.run("survivor", flag)
        os.kill(two.first.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        wait_until(lambda: two.other.status()["leads"])
        assert time.monotonic() - stopped < TAKEN_OVER_SECONDS + 1
        os.kill(two.first.pid, signal.SIGCONT)
        with pytest.raises(Unavailable, match="stands by"):
            two.leader.cancel("p", "survivor")
        assert not two.leader.status()["leads"]
        wait_until(
            lambda: "leads no more, and stands by" in (two.home / "server.log").read_text()
        )  # it has seen it, too
        two.check_end("survivor", flag)
        assert two.leader.status()["leader"] == two.second.url
        os.kill(two.first.pid, signal.SIGKILL)  # what it still held of the home goes with it, and nobody misses that
        found = embedded.find(read_config({"STOKER_HOME": str(two.home)}))
        assert found is not None and found.url == two.second.url
