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
}
"""Name → fault."""


def possible(rig: Rig) -> list[str]:
    """The faults that this machine allows."""
    needs = {"set clock": rig.has_clock, "fill disk": rig.on_tmpfs}
    return [name for name in FAULTS if needs.get(name, True)]
