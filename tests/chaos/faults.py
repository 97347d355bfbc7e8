"""The faults: each hurts one thing at the moment when it is called, and leaves a server that runs, or is to be started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psutil

from .databases import OnPostgresql
from .rig import Rig

Fault = Callable[[Rig, float], None]
"""What it hurts, and for how many seconds something is to be away."""

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
        rig.start_server()  # it ends by itself, and says why
        time.sleep(seconds)
        rig.kill_server()
    rig.database.server.start()
    if rig.server is not None:
        rig.measure_recovery(time.monotonic(), "one whose database is back")


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
}
"""Name → fault."""


PLACES: Mapping[str, str] = {
    "fill disk": "tmpfs",
    "pause the one that leads": "postgresql",
    "database away": "postgresql",
}
"""What some faults need: a home on a small disk, or a database on a server."""


def possible(rig: Rig) -> list[str]:
    """The faults that this machine and this round allow."""
    place = "tmpfs" if rig.on_tmpfs else "postgresql" if isinstance(rig.database, OnPostgresql) else ""
    return [n for n in FAULTS if PLACES.get(n, place) == place and (n != "set clock" or rig.has_clock)]
