"""The faults: each hurts one thing at the moment when it is called, and leaves a server that runs, or is to be started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from .databases import OnPostgresql, Sqlite
from .rig import Rig

Fault = Callable[[Rig, float], None]
"""What it hurts, and for how many seconds something is to be away."""

_PATIENCE_SECONDS = 10.0
_CLOCK_JUMPS = (-86_400, -3_600, -60, 60, 3_600, 86_400)


def kill_server(rig: Rig, _: float) -> None:
    """kill -9 of the server."""
    rig.kill_server()


def kill_server_starting(rig: Rig, _: float) -> None:
    """kill -9 of the server, and of the next one before it is ready."""
    rig.kill_server()
    for _ in range(2):
        rig.start_server()
        time.sleep(rig.draw.uniform(0.05, 1.2))
        rig.kill_server()


def end_server(rig: Rig, _: float) -> None:
    """A polite end."""
    rig.end_server()


def kill_supervisor(rig: Rig, _: float) -> None:
    """kill -9 of a supervisor."""
    if found := rig.supervisors():
        rig.hit(rig.draw.choice(found), signal.SIGKILL)


def kill_program(rig: Rig, _: float) -> None:
    """kill -9 of a program, or of what it started."""
    if found := rig.programs():
        rig.hit(rig.draw.choice(found), signal.SIGKILL)


def kill_client(rig: Rig, _: float) -> None:
    """kill -9 of a client in the middle of its requests."""
    rig.kill_client()


def kill_all(rig: Rig, _: float) -> None:
    """kill -9 of the server, of every supervisor and of a client, at once."""
    for supervisor in rig.supervisors():
        rig.hit(supervisor, signal.SIGKILL)
    rig.kill_server()
    rig.kill_client()


def kill_while_away(rig: Rig, seconds: float) -> None:
    """kill -9 of the server, and of a supervisor and a program while no server runs."""
    rig.kill_server()
    time.sleep(seconds / 4)
    kill_supervisor(rig, 0)
    kill_program(rig, 0)
    time.sleep(seconds / 4)


def pause_server(rig: Rig, seconds: float) -> None:
    """SIGSTOP of the server, then SIGCONT."""
    assert rig.server is not None
    os.kill(rig.server.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(rig.server.pid, signal.SIGCONT)


def pause_supervisor(rig: Rig, seconds: float) -> None:
    """SIGSTOP of a supervisor, then SIGCONT."""
    if found := rig.supervisors():
        one = rig.draw.choice(found)
        rig.hit(one, signal.SIGSTOP)
        time.sleep(seconds)
        with suppress(psutil.Error):
            one.send_signal(signal.SIGCONT)


def set_clock(rig: Rig, _: float) -> None:
    """The clock jumps, under the server's feet; at times the server is restarted then."""
    rig.set_clock(rig.draw.choice(_CLOCK_JUMPS))
    time.sleep(0.5)
    if rig.draw.random() < 0.5:
        rig.kill_server()


def fill_disk(rig: Rig, seconds: float) -> None:
    """No room on the disk of the home; at times the server is killed and started then."""
    rig.fill_disk()
    time.sleep(seconds)
    if rig.draw.random() < 0.3:
        rig.kill_server()
        rig.fill_disk()
        rig.start_server()
        time.sleep(0.5)
        rig.kill_server()
    rig.empty_disk()


def second_server(rig: Rig, _: float) -> None:
    """Another server on the same home: it is refused."""
    command = [sys.executable, "-m", "stoker.cli.main", "up", "--foreground", "--port=0"]
    try:
        second = subprocess.run(command, env=rig.environment, cwd=rig.home, capture_output=True, text=True, timeout=120)
        if second.returncode == 0 or "another server uses" not in second.stderr:
            rig.wrong.append(f"a second server was not refused: {second.returncode}, {second.stderr[-500:]}")
    except subprocess.TimeoutExpired:
        rig.wrong.append("a second server went on")


def take_over(rig: Rig, _: float) -> None:
    """Another server stands by; the one that leads is killed, or ended, and the other takes its place."""
    other = rig.stand_by()
    before = time.monotonic()
    if rig.draw.random() < 0.3:
        rig.end_server()
    else:
        rig.kill_server()
    rig.server = other
    rig.measure_recovery(before, "one that stood by")


def pause_leader(rig: Rig, _: float) -> None:
    """SIGSTOP of the one that leads, until another that stood by has its place; then it wakes up, and has to stand by."""
    assert rig.server is not None
    other, hung = rig.stand_by(), rig.server
    os.kill(hung.pid, signal.SIGSTOP)
    before, rig.server = time.monotonic(), other
    rig.measure_recovery(before, "one that stood by, after a hang")
    os.kill(hung.pid, signal.SIGCONT)
    time.sleep(rig.draw.uniform(0.0, 1.5))
    hung.kill()
    hung.wait()


def database_away(rig: Rig, seconds: float) -> None:
    """The database crashes, and is away; at times the server is killed and started meanwhile."""
    assert isinstance(rig.database, OnPostgresql)
    rig.database.server.stop()
    time.sleep(seconds)
    if rig.draw.random() < 0.3:
        rig.kill_server()
        rig.start_server()  # it waits
        time.sleep(seconds)
        rig.kill_server()
    rig.database.server.start()
    if rig.server is not None:
        rig.measure_recovery(time.monotonic(), "one whose database is back")


def database_away_at_start(rig: Rig, seconds: float) -> None:
    """The database is away when the server starts: it waits, says for what, and goes on by itself."""
    assert isinstance(rig.database, OnPostgresql)
    rig.database.server.stop()
    rig.kill_server()
    rig.start_server()
    if not rig.wait_for_server().waits:
        rig.wrong.append("a server without its database does not say that it waits")
    time.sleep(seconds)
    rig.database.server.start()
    rig.measure_recovery(time.monotonic(), "one that waited for its database")


def kill_on_full_disk(rig: Rig, seconds: float) -> None:
    """No byte free when the server is killed, nor when it starts; at times twice, so that nothing is kept back any more."""
    for _ in range(rig.draw.choice((1, 2))):
        rig.fill_disk()
        rig.kill_server()
        rig.fill_disk()
        rig.start_server()
        rig.wait_for_server()
    time.sleep(seconds / 2)
    rig.empty_disk()
    rig.measure_recovery(time.monotonic(), "one that started on a full disk")


def set_clock_back(rig: Rig, _: float) -> None:
    """The server is killed, and starts at a moment that has been before."""
    rig.kill_server()
    rig.set_clock(rig.draw.choice([jump for jump in _CLOCK_JUMPS if jump < 0]) - rig.draw.randrange(60))


def cut_cache(rig: Rig, seconds: float) -> None:
    """The runtime and the server's address are cut, overwritten or removed; at times the server is killed and started then."""
    for supervisor in rig.supervisors():
        rig.may_be_hit(supervisor)  # what it has not read of the runtime yet is gone
    for path in (rig.home / "cache").glob("runtime-*.pyz"):
        _damage(rig, path)
    _damage(rig, rig.home / "cache" / "server-url")
    if rig.draw.random() < 0.5:
        rig.kill_server()
        rig.start_server()
    rig.measure_recovery(time.monotonic(), "one whose cache was cut")


def _damage(rig: Rig, path: Path) -> None:
    content = path.read_bytes()
    match rig.draw.choice(("removed", "cut", "overwritten")):
        case "removed":
            path.unlink()
        case "cut":
            os.truncate(path, rig.draw.randrange(len(content)))
        case _:
            path.write_bytes(rig.draw.randbytes(len(content)))


def lose_end(rig: Rig, seconds: float) -> None:
    """The database loses its end while programs run: they run on, nothing is started; then it is brought back."""
    assert isinstance(rig.database, Sqlite)
    rig.database.keep(rig.folder / "earlier")
    known = {str(id) for (id,) in rig.database.rows("SELECT id FROM attempts")}
    until = time.monotonic() + _PATIENCE_SECONDS
    while not (lost := {a: f for a, f in rig.attempts().items() if a not in known}) and time.monotonic() < until:
        time.sleep(0.05)
    if not lost:
        return  # nothing was started meanwhile: no database can tell that it has lost anything
    with rig.paused_clients():
        rig.kill_server()
        lost = {a: f for a, f in rig.attempts().items() if a not in known and not (f / "stop").exists()}
        rig.database.put(rig.folder / "earlier", aside=rig.folder / "true")
        rig.start_server()
        with rig.client() as client:
            before = set(rig.attempts())
            if not any("does not know" in problem for problem in client.status()["problems"]):
                rig.wrong.append(f"nobody is told that the database has lost {sorted(lost)}")
            time.sleep(seconds)
        rig.wrong += [
            f"{attempt}, which the database has lost, was stopped"
            for attempt, f in lost.items()
            if (f / "stop").exists()
        ]
        if started := set(rig.attempts()) - before:
            rig.wrong.append(f"started beside what the database has lost: {sorted(started)}")
        rig.kill_server()
        rig.database.put(rig.folder / "true")


FAULTS: Mapping[str, Fault] = {
    "kill server": kill_server,
    "kill server while it starts": kill_server_starting,
    "end server": end_server,
    "kill supervisor": kill_supervisor,
    "kill program": kill_program,
    "kill client": kill_client,
    "kill all": kill_all,
    "kill others while no server runs": kill_while_away,
    "pause server": pause_server,
    "pause supervisor": pause_supervisor,
    "set clock": set_clock,
    "fill disk": fill_disk,
    "second server": second_server,
    "take over": take_over,
    "pause the one that leads": pause_leader,
    "database away": database_away,
    "database away at start": database_away_at_start,
    "kill on a full disk": kill_on_full_disk,
    "set clock back": set_clock_back,
    "cut cache": cut_cache,
    "lose the database's end": lose_end,
}
"""Name → fault."""


PLACES: Mapping[str, str] = {
    "fill disk": "tmpfs",
    "pause the one that leads": "postgresql",
    "database away": "postgresql",
    "database away at start": "postgresql",
    "kill on a full disk": "tmpfs",
    "lose the database's end": "",
}
"""What some faults need: a home on a small disk, a database on a server, or neither."""


CLOCKS = ("set clock", "set clock back")


def possible(rig: Rig) -> list[str]:
    """The faults that this machine and this round allow."""
    place = "tmpfs" if rig.on_tmpfs else "postgresql" if isinstance(rig.database, OnPostgresql) else ""
    return [n for n in FAULTS if PLACES.get(n, place) == place and (rig.has_clock or n not in CLOCKS)]
