"""Too much of everything: replicas, lines, bytes, processes, memory, connections. The server answers; nobody else notices."""

from __future__ import annotations

import resource
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from .site import ATTACKER, NEIGHBOUR, Site, Tries, asking

LATE_MILLISECONDS = 100.0
_LATE_SECONDS = 15.0
_FEW_VCPUS = 0.1
_FORKS = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
_HOG = (
    "import time\nkept = []\nwhile True:\n    kept.append(bytearray(os.urandom(1) * (64 << 20)))\n    time.sleep(0.05)"
)
_FILL = (
    "import os, time\n"
    "with open('filler', 'wb', buffering=0) as file:\n"
    "    for _ in range({megabytes}):\n"
    "        try: file.write(bytes(1 << 20))\n"
    "        except OSError: time.sleep(0.1)\n"
    "time.sleep(600)"
)
_GANGS = (10_000, 9_999, 5_000, 2_000, 1_000)
_CONNECTIONS = 9_000


def gangs(site: Site, seconds: float, tries: Tries) -> None:
    """Jobs of thousands of replicas."""
    with bystanders(site, tries):
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            answer = site.run(ATTACKER, f"gang{number}", "pass", workers=_GANGS[number % len(_GANGS)])
            number += 1
            tries.check(400 <= answer.status_code < 500, f"{answer.status_code} for a gang: {answer.text[:200]}")


def lines(site: Site, seconds: float, tries: Tries) -> None:
    """`yes`, as a job: how much is kept of it, and how late it ends."""
    with bystanders(site, tries):
        began = time.monotonic()
        site.run(ATTACKER, "yes", ["timeout", f"{seconds / 2:.0f}", "yes"])
        site.wait(ATTACKER, "yes")
        took = time.monotonic() - began
    kept = sum(
        p.stat().st_size for top in ("logs/evil", "runs/evil") for p in (site.home / top).rglob("*") if p.is_file()
    )
    tries.check(kept < 300e6, f"{kept / 1e6:.0f} MB are kept of it")
    tries.check(took < seconds / 2 + 5, f"it ended {took - seconds / 2:.0f} s late")
    tries.notes += f"; {kept / 1e6:.0f} MB kept, ended {took - seconds / 2:.1f} s late"


def disk(site: Site, seconds: float, tries: Tries) -> None:
    """A job that writes as fast as it can."""
    with bystanders(site, tries):
        site.run(ATTACKER, "fills", _FILL.format(megabytes=int(100 * min(seconds, 60))))
        time.sleep(seconds)
    site.cancel(ATTACKER, "fills")


def forks(site: Site, seconds: float, tries: Tries) -> None:
    """A fork bomb."""
    with bystanders(site, tries):
        site.run(ATTACKER, "forks", _FORKS)
        time.sleep(seconds)
        site.cancel(ATTACKER, "forks")


def memory(site: Site, seconds: float, tries: Tries) -> None:
    """A job that takes memory until there is none, or it is ended."""
    with bystanders(site, tries):
        site.run(ATTACKER, "hog", "import os\n" + _HOG)
        site.wait(ATTACKER, "hog", "RUNNING")
        until = time.monotonic() + seconds
        while time.monotonic() < until and site.job(ATTACKER, "hog")["state"] == "RUNNING":
            time.sleep(0.5)
        site.cancel(ATTACKER, "hog")


def connections(site: Site, seconds: float, tries: Tries) -> None:
    """Connections that say little, and slowly."""
    with bystanders(site, tries):
        _hold_connections(site, seconds, tries)


def _hold_connections(site: Site, seconds: float, tries: Tries) -> None:
    with many_files(), ExitStack() as opened:
        where = urlsplit(site.url)
        held: list[socket.socket] = []
        for _ in range(_CONNECTIONS):
            try:
                one = opened.enter_context(socket.create_connection((where.hostname or "", where.port or 0), timeout=5))
                one.send(b"GET /stoker/v1/st")
            except OSError:
                continue
            held.append(one)
            tries.note()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for one in held:
                try:
                    one.send(b"a")
                except OSError:
                    pass
            time.sleep(1.0)


def downloads(site: Site, seconds: float, tries: Tries) -> None:
    """Three hundred downloads that nobody reads, of a large log and of a large file."""
    site.run(ATTACKER, "prints", "for _ in range(20_000): print('x' * 2000)")
    site.wait(ATTACKER, "prints")
    for _ in range(8):
        site.ask(ATTACKER, "PUT", "/stoker/v1/files/gs/evil-data/large", content=bytes(8 << 20))
    before, most = site.memory_mb(), 0.0
    with bystanders(site, tries), many_files(), ExitStack() as opened:
        where = urlsplit(site.url)
        for n in range(300):
            path = ("projects/evil/jobs/prints/logs", "files/gs/evil-data/large")[n % 2]
            one = opened.enter_context(socket.create_connection((where.hostname or "", where.port or 0), timeout=5))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"GET /stoker/v1/{path} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer"
            one.send(f"{head} {site.tokens[ATTACKER]}\r\n\r\n".encode())
            tries.note()
        until = time.monotonic() + min(seconds, 20)
        while time.monotonic() < until:
            most = max(most, site.memory_mb())
            time.sleep(0.2)
    tries.check(most - before < 150, f"the server grew by {most - before:.0f} MB")
    tries.notes += f"; the server grew by {most - before:.0f} MB"


def together(site: Site, seconds: float, tries: Tries) -> None:
    """A fork bomb, a flood of lines, a disk filler, gangs of ten thousand and nine thousand slow connections at once.

    The jobs ask for a tenth of a vCPU each: else those of others would wait for a machine that is full by right.
    """
    with bystanders(site, tries):
        site.run(ATTACKER, "t_forks", _FORKS, vcpus=_FEW_VCPUS)
        site.run(ATTACKER, "t_yes", ["timeout", f"{seconds:.0f}", "yes"], vcpus=_FEW_VCPUS)
        site.run(ATTACKER, "t_fills", _FILL.format(megabytes=int(50 * min(seconds, 60))), vcpus=_FEW_VCPUS)
        attacks: tuple[Callable[[], None], ...] = (
            lambda: _gangs_for(site, seconds, tries),
            lambda: _hold_connections(site, seconds, tries),
        )
        threads = [threading.Thread(target=attack) for attack in attacks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in ("t_forks", "t_yes", "t_fills"):
        site.cancel(ATTACKER, name)


def _gangs_for(site: Site, seconds: float, tries: Tries) -> None:
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        answer = site.run(ATTACKER, f"t_gang{number}", "pass", workers=10_000)
        number += 1
        tries.check(400 <= answer.status_code < 500, f"{answer.status_code} for a gang")
        time.sleep(0.2)


@contextmanager
def bystanders(site: Site, tries: Tries) -> Iterator[None]:
    """Somebody who asks for the server's state, and another user who runs a job every few seconds: neither is to notice."""
    seconds: list[float] = []
    over = threading.Event()

    def work() -> None:
        number = 0
        while not over.is_set():
            name, began = f"hello{time.time_ns()}", time.monotonic()
            answer = site.run(NEIGHBOUR, name, "print('hello')", vcpus=_FEW_VCPUS)
            if answer.status_code != 200:
                tries.note(f"another user's job was refused: {answer.status_code} {answer.text[:300]}")
                return
            try:
                state = site.wait(NEIGHBOUR, name)
            except TimeoutError:
                tries.note(f"another user's job did not end: {site.job(NEIGHBOUR, name)}")
                return
            seconds.append(time.monotonic() - began)
            tries.check(state == "SUCCEEDED", f"another user's job {state}: {site.job(NEIGHBOUR, name).get('message')}")
            number += 1
            over.wait(1.0)

    worker = threading.Thread(target=work)
    with asking(site) as answered:
        worker.start()
        try:
            yield
        finally:
            over.set()
            worker.join()
    tries.check(answered.at(0.5) < LATE_MILLISECONDS, f"the server's state came late: {answered.summary}")
    slowest = max(seconds, default=float("inf"))
    tries.check(slowest < _LATE_SECONDS, f"another user's job took {slowest:.1f} s")
    tries.notes = (
        f"{answered.summary}; others' jobs {statistics.median(seconds or [0]):.1f} s (worst {slowest:.1f}){tries.notes}"
    )


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process have as many connections as an attack needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))  # the attacks run as root
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
