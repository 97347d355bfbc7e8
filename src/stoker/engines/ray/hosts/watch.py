"""The server's look after machines that were added by SSH: every minute each is asked how it is, and what is wrong is told."""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Callable
from pathlib import Path

from stoker.core.errors import StokerError

from . import survey
from .adding import look
from .book import Host, HostBook
from .head import Head
from .ssh import Ssh

LOOK_SECONDS = 60.0
_log = logging.getLogger("stoker.engine")


class HostWatch:
    """Looks in a thread of its own. What it finds is told by `problems`, and once by the server's log."""

    def __init__(self, home: Path, is_up: Callable[[str], bool]) -> None:
        """`is_up`: whether the machine with this address is a node that takes work."""
        self._book, self._head, self._is_up = HostBook(home), Head(home), is_up
        self._found: dict[str, list[str]] = {}
        self._ended = threading.Event()

    def start(self) -> None:
        """From now on, as long as this process lives."""
        threading.Thread(target=self._look_for_ever, name="host-watch", daemon=True).start()

    def stop(self) -> None:
        """No more looks."""
        self._ended.set()

    def problems(self) -> list[str]:
        """What was wrong at the last look."""
        return [problem for _, problems in sorted(self._found.items()) for problem in problems]

    def look(self) -> None:
        """At each of them, once."""
        hosts = self._book.hosts()
        drivers = {host.name: host.driver for host in hosts}
        found = {host.name: self._look_at(host, drivers) for host in hosts}
        for name, problems in found.items():
            for problem in set(problems) - set(self._found.get(name, ())):
                _log.warning("%s", problem)
        self._found = found

    def _look_at(self, host: Host, drivers: dict[str, str]) -> list[str]:
        place = self._head.place
        places = {"Ray's head": place.address} if place else {}
        try:
            with Ssh(host.destination, host.ssh_config) as ssh:
                seen = look(ssh, *places.values())
        except StokerError as error:
            # Without a way to it by SSH, such as when its user's agent is gone, a node works as well as before.
            return [] if self._is_up(host.address) else [f"{host.name}: {error.message}; {error.fix}"]
        others = {name: driver for name, driver in drivers.items() if name != host.name}
        problems = [
            *survey.problems(
                seen,
                machine=platform.machine(),
                packages=host.packages,
                site=seen["owner"],
                is_new=False,
                drivers=others,
            ),
            *survey.unreached(seen, places),
        ]
        if not problems and not self._is_up(host.address):
            return [f"{host.name} is not a node now; stoker nodes check {host.name} says why"]
        return [f"{host.name}: {problem.what}; {problem.fix}" for problem in problems]

    def _look_for_ever(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:
                _log.exception("the machines cannot be looked at just now")
