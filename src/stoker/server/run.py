"""Runs a Stoker: takes the lead, listens, waits for what is not there yet, serves, and ends."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from stoker import __version__
from stoker.api.audit import Audit
from stoker.api.auth import allowed_hosts, read_or_make_tokens
from stoker.api.waiting import Waiting, answer_meanwhile
from stoker.app import Stoker, build
from stoker.clock import SystemClock
from stoker.config import Config
from stoker.control.leading import Leading
from stoker.core.errors import NotYet, Unavailable
from stoker.runtime.errors import MAY_PASS
from stoker.runtime.priority import be_server
from stoker.runtime.umask import close_files
from stoker.store.ballast import Ballast
from stoker.store.lead import Lead, lead_of
from stoker.store.restore import check_whole
from stoker.store.room import is_full

from .listening import check_exposure, listen
from .process import keep_one_arena, make_room_for_many

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0
"""Between two tries of a server that cannot begin yet."""

_log = logging.getLogger("stoker")


@dataclass(slots=True, kw_only=True)
class _Place:
    """Where a server is: its home, its lock there, and the socket on which it listens."""

    config: Config
    lead: Lead
    ballast: Ballast
    listening: socket.socket
    about: Mapping[str, Any]  # as server.json tells it
    standby: bool
    nicer: int = 0  # these two as `be_server` gave them
    server_has: Sequence[str] = ()

    @property
    def port(self) -> int:
        """The port that it was given."""
        found: int = self.listening.getsockname()[1]
        return found

    @property
    def server_file(self) -> Path:
        """By this the command line finds the server of the home."""
        return self.config.home / "server.json"

    @property
    def standby_file(self) -> Path:
        """And by this one that stands by."""
        return self.config.home / f"standby-{os.getpid()}.json"


def serve(config: Config, *, standby: bool = False, forget_unknown: bool = False) -> None:
    """Run the server until it is told to end. Raises Unavailable if it cannot start.

    `standby`: also while another leads. `forget_unknown`: end programs that the database does not know, and put away what
    they left. What may pass by itself, such as a database that is away, is waited for.
    """
    from stoker.api.protocol import check_uvicorn

    check_uvicorn()
    keep_one_arena()
    close_files()
    nicer, server_has = be_server()
    place = _take_place(config, standby)
    place.nicer, place.server_has = nicer, server_has
    stoker: Stoker | None = None
    leading: Leading | None = None
    try:
        check_whole(config.home)
        begun = _begin(place, forget_unknown)
        if begun is not None:
            stoker, leading = begun
            _run(place, stoker, leading)
    finally:
        for named in (place.standby_file, place.server_file):
            if _pid_in(named) == os.getpid():
                named.unlink(missing_ok=True)
        if leading is not None:
            leading.stop()
        if stoker is not None:
            if stoker.sampling is not None:
                stoker.sampling.end()
            stoker.alerting.end()
            stoker.store.close()
        place.lead.release()
        place.listening.close()


def _take_place(config: Config, standby: bool) -> _Place:
    """The home, unless another server has it, and a socket."""
    check_exposure(config)
    lead = lead_of(config.home, config["database"])
    if not lead.take_home() and not standby:
        raise _taken(config)
    try:
        ballast = Ballast(config.home, config["reserve_mb"])
        if ballast.drop():
            _log.warning("the disk of %s is full: what was kept back there for a start is given up", config.home)
        listening = listen(config)
    except BaseException:
        lead.release()
        raise
    host, port = config["host"], listening.getsockname()[1]
    url = f"http://{host if ':' not in host else f'[{host}]'}:{port}"
    about = {"url": url, "pid": os.getpid(), "version": __version__, "started_at": time.time(), "auth": config["auth"]}
    return _Place(config=config, lead=lead, ballast=ballast, listening=listening, about=about, standby=standby)


def _taken(config: Config) -> Unavailable:
    return Unavailable(
        f"another server uses {config.shown_database} already",
        fix="stoker status shows it; stoker up --standby takes over from it; or set STOKER_HOME to another folder",
    )


def _begin(place: _Place, forget_unknown: bool) -> tuple[Stoker, Leading] | None:
    """Tie a Stoker together and take the lead, or stand by; tried again as long as what is missing may come by itself.

    Meanwhile whoever asks is told what is waited for. None: it was told to end before that.
    """
    ended, pause, waiting = threading.Event(), FIRST_PAUSE_SECONDS, None
    try:
        while True:
            try:
                return _try_to_begin(place, forget_unknown)
            except (Unavailable, OSError) as error:
                why = _passing(error, place.config.home)
                if why is None:
                    raise
            place.ballast.drop()
            if waiting is None:
                waiting = _wait_openly(place, why, ended)
            if waiting.tell(why):
                _log.error("waiting, and trying again: %s (%s)", why.message, why.fix)
            if ended.wait(pause):
                return None
            pause = min(LONGEST_PAUSE_SECONDS, pause * 1.5)
    finally:
        if waiting is not None:
            waiting.close()


def _try_to_begin(place: _Place, forget_unknown: bool) -> tuple[Stoker, Leading]:
    config = place.config
    is_first = place.lead.take()
    if not is_first and not place.standby:
        raise _taken(config)
    leading: Leading | None = None
    stoker = build(
        config,
        upgrade=is_first,
        leads=lambda: leading is not None and leading.leads(),
        forget_unknown=forget_unknown,
        nicer=place.nicer,
        server_has=place.server_has,
    )

    def began() -> None:
        stoker.take_over(place.about["url"])
        _write(place.server_file, json.dumps(place.about))
        place.standby_file.unlink(missing_ok=True)

    try:
        leading = Leading(
            lead=place.lead,
            store=stoker.store,
            loop=stoker.loop,
            who=place.about["url"],
            began=began,
            looked=stoker.services.notifier.notify,
            kept=place.ballast.take,
        )
        if is_first:
            leading.begin()
        else:
            config.home.mkdir(parents=True, exist_ok=True)
            for left in config.home.glob("standby-*.json"):  # by one that was killed
                if not psutil.pid_exists(_pid_in(left)):
                    left.unlink(missing_ok=True)
            _write(place.standby_file, json.dumps(place.about))
    except BaseException:
        stoker.loop.stop()
        stoker.store.close()
        raise
    return stoker, leading


def _passing(error: Unavailable | OSError, home: Path) -> NotYet | None:
    """An error as one that may pass by itself; None: it does not."""
    if isinstance(error, NotYet):
        return error
    if isinstance(error, OSError) and error.errno not in MAY_PASS:
        return None
    if isinstance(error, Unavailable) and not is_full(home):
        return None
    said = error.message if isinstance(error, Unavailable) else error.strerror or str(error)
    return NotYet(f"{home} cannot be written now: {said}", fix="free some disk space there: then it goes on by itself")


def _wait_openly(place: _Place, why: NotYet, ended: threading.Event) -> Waiting:
    """Answer on the server's address that it waits, and let the command line find it."""
    config = place.config
    tokens = read_or_make_tokens(config.home, SystemClock(), writes=lambda: False)
    waiting = answer_meanwhile(
        place.listening,
        tokens,
        allowed_hosts(config["host"], place.port),
        needs_token=config["auth"],
        audit=Audit(config.home / "audit.log"),
        end=ended.set,
    )
    file = place.standby_file if place.standby else place.server_file
    with suppress(OSError):  # it may be the disk that is waited for
        _write(file, json.dumps({**place.about, "waits": why.message}))
    return waiting


def _run(place: _Place, stoker: Stoker, leading: Leading) -> None:
    """Serve until it is told to end."""
    import uvicorn

    from stoker.api.app import make_app
    from stoker.api.protocol import PatientProtocol

    from .http_server import Server

    config, server = place.config, None

    def shut_down() -> None:
        if server is not None:
            server.should_exit = True
        stoker.services.notifier.closed = True
        stoker.services.notifier.notify()

    services = replace(stoker.services, shut_down=shut_down)
    app = make_app(services, stoker.tokens, allowed_hosts(config["host"], place.port), needs_token=config["auth"])
    server = Server(
        uvicorn.Config(
            app,
            log_level="error",  # what strangers send is no news: a warning for each would fill the log
            access_log=False,
            timeout_graceful_shutdown=2,
            server_header=False,
            http=PatientProtocol,
            loop="asyncio",  # also where uvloop happens to be installed: one loop, which is tested
            ws="none",
            proxy_headers=False,  # anybody can write X-Forwarded-For
        )
    )
    does = "leads" if leading.leads() else "stands by"
    leading.start()
    make_room_for_many()
    _log.warning("stoker %s listens on %s, home %s, and %s", __version__, place.about["url"], config.home, does)
    server.run(sockets=[place.listening])


def _pid_in(path: Path) -> int:
    """The process that a file like server.json names; 0 for none."""
    try:
        return int(json.loads(path.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def _write(path: Path, text: str) -> None:
    """Replace a small file whole; without a byte of room, over what is in its place."""
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        with open(path, "r+b") as file:  # its block is there already
            file.write(text.encode().ljust(os.fstat(file.fileno()).st_size))
