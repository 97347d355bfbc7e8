"""A client of a campaign: it submits, cancels, lists and follows, and keeps a journal of its own of what it was told.

`python -m tests.chaos.client HOME JOURNAL WITNESS MARK PREFIX SEED KINDS`. The journal is JSON lines, each synced at once:

    {"what": "asks", "job": …, "kind": …, "lines": …}  {"what": "acknowledged", "job": …}     a submission
    {"what": "cancels", "job": …}  {"what": "cancelled", "job": …}                             a cancel
    {"what": "wrong", "job": …, "text": …}                                                     what no server may answer

A server that is away is asked again, as a user's program would.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from stoker.core.errors import AlreadyExists, StokerError, Unavailable

PROJECT = "chaos"
MOST_LIVE = 12
"""So many jobs wait or run at a time, at most."""

CHATTY_LINES = 900
"""What a supervisor can keep in memory while the disk is full is a little more."""

PROGRAM = Path(__file__).with_name("program.py")
_PAUSE_SECONDS = 0.05
_FOLLOWED_SECONDS = 4.0


class Journal:
    """What one client knows, safe from its own death."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, what: str, job: str, **more: Any) -> None:
        """One line, on disk when this returns."""
        os.write(self._file, (json.dumps({"what": what, "job": job, **more}) + "\n").encode())
        os.fsync(self._file)


def body_of(
    name: str, kind: str, witness: Path, mark: str, draw: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A job of a kind, and what its journal should remember of it."""
    seconds, lines = draw.choice((0.0, 0.3, 1.0, 2.5)), CHATTY_LINES if kind == "chatty" else draw.randint(1, 20)
    command = [sys.executable, "-S", "-I", str(PROGRAM), str(witness), mark, kind, str(seconds), str(lines)]
    workers = draw.choice((0, 0, 0, 1, 2))
    gpus = draw.choice((0, 1, 2)) if workers < 2 else 1
    body = {"name": name, "command": command, "workers": workers, "gpus": gpus}
    return body, {"kind": kind, "lines": lines, "workers": workers}


class ChaosClient:
    """One client. Its threads share the journal and the names, and each has a connection of its own."""

    def __init__(
        self, home: Path, journal: Journal, witness: Path, mark: str, prefix: str, seed: str, kinds: Sequence[str]
    ) -> None:
        self._config = read_config({"STOKER_HOME": str(home)})
        self._journal, self._witness, self._mark, self._prefix, self._seed = journal, witness, mark, prefix, seed
        self._kinds = kinds
        self._names: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        """Until told to stop, and until what was begun is answered."""
        threads = [threading.Thread(target=part) for part in (self._submits, self._cancels, self._reads, self._follows)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _submits(self) -> None:
        draw = random.Random(f"{self._seed}/submits")
        for number, client in enumerate(self._clients()):
            name = f"{self._prefix}_{number}"
            body, remembered = body_of(name, draw.choice(self._kinds), self._witness, self._mark, draw)
            self._journal.add("asks", name, **remembered)
            if self._persist(client, name, Client.run, PROJECT, body, takes_taken=True):
                self._journal.add("acknowledged", name)
                self._names.append(name)
            while not self.stopping.is_set() and self._count_live(client) >= MOST_LIVE:
                self.stopping.wait(0.2)
            self.stopping.wait(draw.uniform(0.0, 0.6))

    def _cancels(self) -> None:
        draw = random.Random(f"{self._seed}/cancels")
        for client in self._clients():
            self.stopping.wait(draw.uniform(0.5, 2.0))
            if self._names and not self.stopping.is_set():
                name = draw.choice(self._names[-5:])
                self._journal.add("cancels", name)
                if self._persist(client, name, Client.cancel, PROJECT, name):
                    self._journal.add("cancelled", name)

    def _reads(self) -> None:
        draw = random.Random(f"{self._seed}/reads")
        for client in self._clients():
            self.stopping.wait(draw.uniform(0.1, 0.4))
            self._persist(client, "", Client.jobs, PROJECT, 50)
            if self._names:
                name = draw.choice(self._names)
                self._persist(client, name, Client.details, PROJECT, name)
                self._persist(client, name, Client.explain, PROJECT, name)

    def _follows(self) -> None:
        """What is streamed of a replica comes in order, and once, over every restart."""
        draw = random.Random(f"{self._seed}/follows")
        for client in self._clients():
            self.stopping.wait(0.2)
            if self._names:
                name = draw.choice(self._names[-3:])
                self._persist(client, name, self._follow, name)

    def _follow(self, client: Client, name: str) -> None:
        last = 0
        for event in client.stream(PROJECT, name, seconds=_FOLLOWED_SECONDS):
            if event["kind"] == "log":
                if event["sequence"] <= last:
                    self._journal.add("wrong", name, text=f"sequence {event['sequence']} came after {last}")
                last = event["sequence"]

    def _count_live(self, client: Callable[[], Client]) -> int:
        try:
            return len(client().live_jobs())
        except StokerError:
            return 0

    def _clients(self) -> Iterator[Callable[[], Client]]:
        """The same again and again: a way to a client of the server as it is now."""
        kept: list[Client] = []

        def client() -> Client:
            found = embedded.find(self._config)
            if found is None:
                raise Unavailable("no server runs here")
            if not kept or kept[0].url != found.url:
                for old in kept:
                    old.close()
                kept[:] = [Client(found.url, found.token, seconds=15.0)]
            return kept[0]

        while not self.stopping.is_set():
            yield client

    def _persist(
        self, client: Callable[[], Client], job: str, ask: Callable[..., Any], *words: Any, takes_taken: bool = False
    ) -> bool:
        """Ask until there is an answer. Returns whether there was, and it was a good one."""
        until = time.monotonic() + 30.0
        while not self.stopping.is_set() or time.monotonic() < until:
            try:
                ask(client(), *words)
                return True
            except Unavailable:
                time.sleep(_PAUSE_SECONDS)
            except AlreadyExists as error:
                if not takes_taken:
                    self._journal.add("wrong", job, text=str(error))
                return takes_taken  # what we asked before was done, and its answer lost
            except StokerError as error:
                self._journal.add("wrong", job, text=f"{type(error).__name__}: {error}")
                return False
        return False


def main(words: list[str]) -> None:
    """Until SIGTERM."""
    home, journal, witness, mark, prefix, seed, kinds = words
    client = ChaosClient(Path(home), Journal(Path(journal)), Path(witness), mark, prefix, seed, kinds.split(","))
    signal.signal(signal.SIGTERM, lambda *_: client.stopping.set())
    client.run()


if __name__ == "__main__":
    main(sys.argv[1:])
