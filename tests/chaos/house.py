"""The server of a simulation: the real loop, commands, store and dialects, in one process that may die at any statement."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI

from stoker.alerts.channel import Channel
from stoker.alerts.desk import Desk
from stoker.api.app import routes
from stoker.api.audit import Audit
from stoker.api.auth import Guard, Tokens, read_or_make_tokens
from stoker.api.notifier import Notifier
from stoker.api.rendezvous import Rendezvous
from stoker.api.services import Services
from stoker.clock import Clock
from stoker.config import Config, read_config
from stoker.control.commands import Commands
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import WRITER, Loop
from stoker.control.unknown import Unknown
from stoker.core.changes import Change
from stoker.core.errors import NotFound
from stoker.core.site import Site
from stoker.engines.local.isolation import LEVEL_0
from stoker.insight.ledgers import Ledgers
from stoker.insight.live_world import LiveWorld
from stoker.insight.queue_view import Queue
from stoker.kinds.training import Training
from stoker.sampling.monitor import Monitor
from stoker.scheduling.rules import rules_of
from stoker.simulate.outlooks import PlayedOutlooks
from stoker.store.alerts import AlertBook
from stoker.store.databases import Database
from stoker.store.files import Files
from stoker.store.group_commit import GroupCommit, Known, _Batch
from stoker.store.logs import Logs
from stoker.store.objects.objects import Objects
from stoker.store.objects.uploads import Uploads
from stoker.store.sql import SqlStore

from .cluster import Cluster, SimulatedEngine
from .luck import Faults

HOST = "127.0.0.1:7077"
IMAGES = {"gcr.io/chaos/*": ("python", "-m", "trainer")}


class Statements:
    """Every statement of every database in this process is a chance to die."""

    def __init__(self) -> None:
        self.faults: Faults | None = None
        sa.event.listen(sa.engine.Engine, "before_cursor_execute", self._before)

    def _before(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self.faults is None:
            return
        self.faults.crash("crash before a statement")
        if statement.startswith(WRITES):
            for kind, text in DISK_ERRORS.items():
                if self.faults.strikes(kind):
                    raise sa.exc.OperationalError(statement, None, sqlite3.OperationalError(text))


DISK_ERRORS = {"the disk is full": "database or disk is full", "the database is busy": "database is locked"}
WRITES = ("BEGIN IMMEDIATE", "INSERT", "UPDATE", "DELETE", "CREATE")
STATEMENTS = Statements()


class FrailCommits(GroupCommit):
    """The real writing without its thread: whoever commits writes, and may die at any statement of it."""

    def __init__(self, database: Database, clock: Clock, known: Known) -> None:
        self._database, self._clock, self._known = database, clock, known

    def commit(self, changes: Sequence[Change], by: str, term: int | None) -> int:
        """Write in this thread."""
        batch = _Batch(changes, by, term)
        self._write([batch])
        return batch.done.result()

    def close(self) -> None:
        """Nothing is pending."""


class FrailStore(SqlStore):
    """The real store in one thread, with others that write in between, and with statements at which it may die."""

    def __init__(self, path: Path, clock: Clock, faults: Faults, meanwhile: Callable[[], None]) -> None:
        self._faults = STATEMENTS.faults = faults
        self._meanwhile = meanwhile
        super().__init__(path, clock)
        self._commits.close()
        self._commits = FrailCommits(self._database, self._clock, self._known)

    def commit(self, changes: Sequence[Change], *, by: str, term: int | None = None) -> int:
        """Write, or die before it or after it."""
        if changes and by == WRITER:
            self._meanwhile()
        position = super().commit(changes, by=by, term=term)
        self._faults.crash("crash after a commit")
        return position

    def die(self) -> None:
        """Let go of the file as a process does that is killed: what is not committed never was."""
        STATEMENTS.faults = None
        self.close()

    def _watch(self) -> None:
        """No thread: who plays this looks by hand."""


class FrailLogs(Logs):
    """The real logs, on a disk that may be full, in a process that may die."""

    faults: Faults

    def append(self, attempt: str, replica: str, lines: Iterable[Mapping[str, Any]]) -> int:
        """Keep lines, or die."""
        self.faults.crash("crash before lines are kept")
        if self.faults.strikes("the disk is full for lines"):
            raise OSError(28, "No space left on device")
        number = super().append(attempt, replica, lines)
        self.faults.crash("crash after lines are kept")
        return number


class App:
    """The routes: code, made once. Which server answers is put in at each start."""

    def __init__(self) -> None:
        self.routes: FastAPI | None = None
        self.loop = asyncio.new_event_loop()

    def serve(self, services: Services, tokens: Tokens, home: Path) -> Guard:
        """The application of a server that has just started."""
        if self.routes is None:
            self.routes = routes(services)
        self.routes.state.services = services
        return Guard(self.routes, tokens, frozenset({HOST}), Audit(home / "audit.log"))


APP = App()


def no_channel(name: str) -> Channel:
    """There is none: nothing leaves the simulation."""
    raise NotFound(f"no channel {name}")


class Server:
    """One life of the server, from its start to its death."""

    def __init__(self, home: Path, cluster: Cluster, clock: Clock, faults: Faults, site: Site) -> None:
        """Start on what is written in `home`. Raises Crash if it dies in doing so."""
        self._faults = faults
        self.store = FrailStore(home / "stoker.db", clock, faults, cluster.meanwhile)
        self.logs = FrailLogs(home / "logs", clock)
        self.logs.faults = faults
        tokens = read_or_make_tokens(home, clock)
        self.token, self.token_of = tokens.token, tokens.of_attempt
        config = config_of(home)
        files = Files(home / "buckets", buckets={}, keep_buckets_here=True)
        self.rules = rules_of(site)
        engine = SimulatedEngine(cluster)
        try:
            enact = Enact(
                engines={"fake": engine},
                kinds={"training": Training()},
                files=files,
                runtimes=Runtimes(default="python", by_version={}, images=IMAGES),
            )
            self.loop = Loop(
                store=self.store,
                logs=self.logs,
                engines={"fake": engine},
                rules=self.rules,
                enact=enact,
                clock=clock,
            )
            live = LiveWorld(self.store)
            notifier = Notifier()
            notifier.closed = True  # nobody is kept on the line: a long poll is answered at once, and asked again
            objects = Objects(files, home)
            self.services = Services(
                config=config,
                store=self.store,
                commands=Commands(
                    store=self.store,
                    files=files,
                    rules=self.rules,
                    clock=clock,
                    images=IMAGES,
                    rehearsal_engine="fake",
                ),
                queue=Queue(self.store, self.rules, clock, stopwatch=lambda: 0.0),
                outlooks=PlayedOutlooks(store=self.store, rules=self.rules, clock=clock),
                logs=self.logs,
                files=files,
                objects=objects,
                uploads=Uploads(home / "uploads", objects, clock),
                engines={"fake": engine},
                monitor=Monitor(None, clock.now),
                ledgers=Ledgers(home / "goodput.db", self.store, self.logs, live, clock),
                leases=self.loop.leases,
                isolation=LEVEL_0,
                live=live,
                tokens=tokens.book,
                alerts=Desk(book=AlertBook(self.store.database, clock), channels=no_channel, clock=clock),
                unknown=Unknown(home=home, store=self.store, logs=self.logs, engines={}),
                notifier=notifier,
                rendezvous=Rendezvous(notifier),
            )
            self.loop._term = self.store.lead("simulated")
        except BaseException:
            self.store.die()
            raise
        self._app = APP.serve(self.services, tokens, home)

    def listen(self, ring: Callable[[int], None]) -> None:
        """Call this after every commit."""
        self.store.listen(ring)

    def answer(
        self, method: str, path: str, body: Any = None, *, token: str = "", cut: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """One request, answered whole before anything else happens. Raises Crash if the server dies over it.

        `token`: the home's own, if it is empty.
        """
        content = b"" if body is None else json.dumps(body).encode()
        bare, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "headers": [
                (b"host", HOST.encode()),
                (b"authorization", f"Bearer {token or self.token}".encode()),
                (b"content-type", b"application/json"),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7077),
        }
        received = [{"type": "http.request", "body": content[: len(content) // 2 if cut else None], "more_body": cut}]
        sent: list[Any] = []

        async def receive() -> Any:
            self._faults.crash("crash while a request is answered")
            return received.pop() if received else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self._faults.crash("crash while a request is answered")
            sent.append(message)

        try:
            APP.loop.run_until_complete(self._app(scope, receive, send))
        except Exception:
            if not cut and not any(message.get("status") == 500 for message in sent):
                raise
        status = next((message["status"] for message in sent if message["type"] == "http.response.start"), 0)
        text = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            found = {"text": text.decode(errors="replace")}
        return status, found if isinstance(found, dict) else {"list": found}

    def die(self) -> None:
        """Gone, with whatever it had in memory."""
        self.store.die()


_CONFIGS: dict[Path, Config] = {}


def config_of(home: Path) -> Config:
    """The settings of a simulated server."""
    if home not in _CONFIGS:
        _CONFIGS.clear()
        _CONFIGS[home] = read_config({}, flags={"home": str(home)})
    return _CONFIGS[home]
