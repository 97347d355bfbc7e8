"""Makes machines nodes by SSH, looks after them, and gives them back."""

from __future__ import annotations

import hashlib
import platform
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from stoker.core.errors import Conflict, EngineError, StokerError
from stoker.engines.local.pythons import find_uv
from stoker.engines.ray.health import HEALTH_ENVIRONMENT

from . import packages, setup, survey
from .book import Host, HostBook
from .head import Head
from .ssh import Ssh, last_words
from .survey import Problem, Survey

INSTALL_SECONDS = 1800.0
JOIN_SECONDS = 90.0
_LOOK_SECONDS = 0.5
_NO_NAME = re.compile(r"[^A-Za-z0-9.-]+")

Say = Callable[[str], None]


class Site(Protocol):
    """The server of this home, as a machine that is added needs it."""

    def serve_at(self, host: str, head: str) -> str:
        """Have it listen at an address of this machine and use the cluster of that head. Returns where: host:port."""
        ...

    def nodes_up(self, address: str) -> Collection[str]:
        """The nodes that the machine with this address is now: each of its lives is another."""
        ...

    def jobs_at(self, address: str) -> Sequence[str]:
        """What runs on the machine with this address."""
        ...


class Hosts:
    """The machines of one home."""

    def __init__(self, home: Path, site: Site, say: Say, warn: Say) -> None:
        """`say` is called with each step, `warn` with what is wrong and does not stop it."""
        self._book, self._head = HostBook(home), Head(home)
        self._site, self._say, self._warn = site, say, warn
        self._mark = hashlib.sha256(str(home).encode() + self._head.token.encode()).hexdigest()[:16]

    def add(self, host: Host, *, our_address: str = "", by_force: bool = False) -> Host:
        """Make a machine a node. Raises StokerError; what was done by then may be done again.

        `our_address`: by which the machine reaches this one, if it is not the one that it was reached from. `by_force`: also
        where jobs run, on one that is a node already: they are started again.
        """
        if _NO_NAME.search(host.name):
            raise EngineError(f"{host.name!r} is not a name", fix="letters, digits, dots and hyphens: --name box2")
        if not packages.ray_version():
            raise EngineError("Ray is not installed here", fix="pip install 'stoker[ray]'")
        with Ssh(host.destination, host.ssh_config) as ssh:
            found = look(ssh)
            host = replace(host, address=host.address or found.address, driver=found["driver"])
            is_new = all(host.name != other.name for other in self._book.hosts())
            self._check_address(host)
            if not by_force:
                self._check_idle(host)
            self._judge(host, self._problems(host, found, is_new=is_new))
            head = self._head.settle(our_address or self._our_address(found))
            self._head.ensure()
            served = self._site.serve_at(head.host, head.address)
            places = {"Ray's head": head.address, "Stoker's server": served}
            self._judge(host, list(survey.unreached(look(ssh, *places.values()), places)))
            host = self._install(ssh, host, found)
            before = self._site.nodes_up(host.address)
            self._start(ssh, host, found, head.address)
            self._book.put(host)
            self._await(ssh, host, before)
        return host

    def check(self, name: str) -> Sequence[Problem]:
        """What is wrong with one. Raises SshFailed if there is no way to it."""
        host, head = self._book.host(name), self._head.place
        with Ssh(host.destination, host.ssh_config) as ssh:
            places = {"Ray's head": head.address} if head else {}
            found = look(ssh, *places.values())
            problems = [*self._problems(host, found, is_new=False), *survey.unreached(found, places)]
            if not problems and not self._site.nodes_up(host.address):
                problems.append(self._why_not_up(ssh, host))
        return problems

    def upgrade(self, name: str, *, by_force: bool = False) -> Host:
        """Give one the versions of this machine. Raises Conflict if jobs run there, unless `by_force`."""
        return self.add(self._book.host(name), by_force=by_force)

    def remove(self, name: str, *, by_force: bool = False) -> Host:
        """It is no longer a node, and nothing of Stoker is left there. Raises Conflict if jobs run there, unless `by_force`.

        By force, one that cannot be reached is forgotten.
        """
        host = self._book.host(name)
        if not by_force:
            self._check_idle(host)
        try:
            with Ssh(host.destination, host.ssh_config) as ssh:
                done = ssh.run(setup.stop(is_forever=True))
                if done.returncode:
                    raise EngineError(f"{host.name}: {last_words(done.stderr)}")
        except StokerError as error:
            if not by_force:
                raise
            self._warn(f"{host.name} is forgotten, and what is there stays: {error.message}")
        self._book.drop(host.name)
        if not self._book.hosts():
            self._head.stop()
        return host

    def _check_idle(self, host: Host) -> None:
        jobs = self._site.jobs_at(host.address)
        if jobs:
            raise Conflict(
                f"{', '.join(jobs)} run{'s' if len(jobs) == 1 else ''} on {host.name}",
                fix="stoker nodes drain NODE first; --force restarts them elsewhere from their checkpoints",
            )

    def _check_address(self, host: Host) -> None:
        for other in self._book.hosts():
            if other.address == host.address and other.name != host.name:
                raise Conflict(
                    f"{host.destination} is {other.name}, which is a node already",
                    fix=f"stoker nodes upgrade {other.name}",
                )

    def _our_address(self, found: Survey) -> str:
        place = self._head.place
        return place.host if place else found.our_address  # all machines reach the same

    def _problems(self, host: Host, found: Survey, *, is_new: bool) -> list[Problem]:
        drivers = {other.name: other.driver for other in self._book.hosts() if other.name != host.name}
        return list(
            survey.problems(
                found,
                machine=platform.machine(),
                packages=host.packages,
                site=self._mark,
                is_new=is_new,
                drivers=drivers,
            )
        )

    def _judge(self, host: Host, problems: Sequence[Problem]) -> None:
        """Warn of what may be, and raise EngineError for what may not."""
        for problem in problems:
            if not problem.is_fatal:
                self._warn(f"{host.name}: {problem.what} → {problem.fix}")
        fatal = [problem for problem in problems if problem.is_fatal]
        if fatal:
            raise EngineError(
                f"{host.name} cannot be a node: {'; '.join(problem.what for problem in fatal)}",
                fix="; ".join(dict.fromkeys(problem.fix for problem in fatal)),
            )

    def _install(self, ssh: Ssh, host: Host, found: Survey) -> Host:
        """Bring uv, and have it make the environment. Returns the host with what it has then."""
        requirements = packages.of_environment(host.packages)
        python = packages.python_version()
        text = "\n".join([python, *host.index_options, *requirements])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        uv = next((line.partition("==")[2] for line in requirements if line.startswith("uv==")), "")
        if not uv or found["uv"] != uv:
            ssh.put(Path(find_uv()), f"{setup.FOLDER}/bin/uv")
        if digest != host.environment:
            self._say(f"{host.name}: installs Python {python.rpartition('.')[0]} and {len(requirements)} packages")
            for name in packages.left_out() if host.packages == "all" else ():
                self._warn(f"{host.name}: {name} is installed here from a folder, which is not brought there")
        done = ssh.run(
            setup.install(digest=digest, python=python, requirements=requirements, index_options=host.index_options),
            seconds=INSTALL_SECONDS,
        )
        if done.returncode:
            said = " ".join(done.stderr.split())[-800:]
            raise EngineError(f"{host.name}: its environment cannot be made: {said}", fix=_fix_of_install(done.stderr))
        return replace(host, environment=digest, ray_version=packages.ray_version())

    def _start(self, ssh: Ssh, host: Host, found: Survey, head: str) -> None:
        done = ssh.run(
            setup.start(
                site=self._mark,
                digest=host.environment,
                token=self._head.token,
                head=head,
                address=host.address,
                gpus=host.gpus,
                host=host.name,
                health=HEALTH_ENVIRONMENT,
            )
        )
        if done.returncode:
            raise EngineError(f"{host.name}: it cannot be started: {last_words(done.stderr)}")
        kept = done.stdout.strip()
        if kept == "systemd no-linger":
            user = found["user"]
            self._warn(f"{host.name}: it ends when {user} logs out → as root there: loginctl enable-linger {user}")
        elif kept == "keep":
            self._warn(
                f"{host.name}: it has no systemd for {found['user']} and no cron: after a reboot it is not a node until you run"
                f" there: setsid {found['home']}/.local/share/stoker-node/keep </dev/null >/dev/null 2>&1 &"
            )

    def _await(self, ssh: Ssh, host: Host, before: Collection[str]) -> None:
        """Until it is a node, and another than before. Raises EngineError with what Ray says there, if it does not become one."""
        until = time.monotonic() + JOIN_SECONDS
        while not set(self._site.nodes_up(host.address)) - set(before):
            if time.monotonic() > until:
                problem = self._why_not_up(ssh, host)
                raise EngineError(f"{host.name} is set up, and does not join: {problem.what}", fix=problem.fix)
            time.sleep(_LOOK_SECONDS)

    def _why_not_up(self, ssh: Ssh, host: Host) -> Problem:
        return why_not_up(ssh.run(setup.log_of_start()).stdout, host)


def why_not_up(log: str, host: Host) -> Problem:
    """What the log of a node's start says of why it is none."""
    if "ersion mismatch" in log:
        return Problem("it has another version of Ray or Python than the head", f"stoker nodes upgrade {host.name}")
    if "uthentication" in log or "token" in log.lower():
        return Problem("Ray's head does not take its token", f"stoker nodes upgrade {host.name}")
    if "No space left" in log:
        return Problem("its disk is full", "make room there")
    words = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("---")]
    said = f"Ray says there: {words[-1]}" if words else "Ray was not started there"
    log_file = setup.FOLDER.replace('"$HOME', "~").strip('"') + "/log"
    return Problem(said, f"the log there is {log_file}; stoker nodes upgrade {host.name} starts it anew")


def look(ssh: Ssh, *places: str) -> Survey:
    """What a machine is like, and whether it reaches these places."""
    asked_at = time.time()
    done = ssh.run(survey.reaches(*places))
    return survey.read(done.stdout, asked_at, time.time())


def name_of(destination: str) -> str:
    """How a machine is called: `ada@box2.lab` is box2.lab."""
    return _NO_NAME.sub("-", destination.rpartition("@")[2]).strip("-.") or "host"


def _fix_of_install(said: str) -> str:
    if setup.NO_PYTHON in said:
        return "install it there (apt install python3 python3-venv), or let the machine reach the network"
    if "No solution found" in said or "no version of" in said:
        return "name the index that has it: --index-url URL; or bring Ray alone: --packages ray"
    return "let the machine reach the package index; or bring Ray alone: --packages ray"
