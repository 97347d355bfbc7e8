"""OpenSSH, as its user has set it up: keys, agent, aliases and jumps are those of `~/.ssh/config`. Nothing is ever asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from stoker.core.errors import EngineError

CONNECT_SECONDS = 10
_ITS_OWN_FAILURE = 255  # ssh(1), EXIT STATUS
_NOT_OPTIONS = re.compile(r"[A-Za-z0-9_.:\[\]@%+-]+")

_WORDS: tuple[tuple[str, str, str], ...] = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "it shows another key than before, or one that is not known",
        "see whether that is right, then: ssh-keygen -R HOST, and ssh {0} once",
    ),
    (
        "Permission denied|Too many authentication",
        "it does not let {0} in",
        "ssh-copy-id {0}; ssh {0} has to work without a password",
    ),
    ("Could not resolve", "no machine has that name", "correct it, or give its address"),
    ("Connection refused", "nobody listens there for SSH", "start sshd there: apt install openssh-server"),
    (
        "timed out|No route to host|Network is unreachable",
        "it does not answer",
        "see whether it is on, and on this network",
    ),
    (
        "Bad owner or permissions|Bad configuration option|Can't open user config",
        "OpenSSH does not take its configuration",
        "see ssh {0}",
    ),
)


class SshFailed(EngineError):
    """There is no way to a machine. Says why, and what to do."""


class Ssh:
    """`with Ssh("ada@box2") as ssh:` one connection, for all that is run there meanwhile."""

    def __init__(self, destination: str, config: str = "") -> None:
        """`config`: a file in the place of the user's own `~/.ssh/config`. Raises EngineError where there is no OpenSSH."""
        if shutil.which("ssh") is None:
            raise EngineError("there is no ssh on this machine", fix="apt install openssh-client")
        if not _NOT_OPTIONS.fullmatch(destination) or destination.startswith("-"):
            raise EngineError(
                f"{destination!r} is no machine", fix="name it as ssh does: user@host, or an alias of ~/.ssh/config"
            )
        self.destination, self._config = destination, config

    def __enter__(self) -> Ssh:
        self._folder = tempfile.mkdtemp(prefix="stoker-ssh-", dir="/tmp")  # the path of a socket is short
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(subprocess.TimeoutExpired):
            words = [*self._words(), "-O", "exit", self.destination]
            subprocess.run(words, capture_output=True, timeout=CONNECT_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(
        self,
        script: str,
        *,
        seconds: float = 60.0,
        told: Callable[[str], None] = lambda line: None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of sh there. `told`: each line of its stderr, as it comes. Raises SshFailed if there is no way there."""
        command = [*self._words(), self.destination, "sh", "-s"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return self._ended(process, script.encode(), seconds, told)

    def put(self, source: Path, target: str, *, seconds: float = 600.0) -> None:
        """Copy a file there, whole, for its user to run. `target`: as a shell there takes it."""
        script = f'mkdir -p "$(dirname {target})" && cat > {target}.part && chmod 755 {target}.part && mv {target}.part {target}'
        with open(source, "rb") as file:
            words = [*self._words(), self.destination, script]
            try:
                done = subprocess.run(words, stdin=file, capture_output=True, text=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                why = f"{self.destination}: {source.name} was not there within {seconds:g} s"
                raise SshFailed(why, fix="see how quick the link to it is") from None
        self._check(done)
        if done.returncode:
            raise EngineError(f"{self.destination}: {source.name} cannot be put there: {last_words(done.stderr)}")

    def _ended(
        self, process: subprocess.Popen[str], data: bytes, seconds: float, told: Callable[[str], None]
    ) -> subprocess.CompletedProcess[str]:
        try:
            output, errors = process.communicate(data.decode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise SshFailed(
                f"{self.destination} was not done within {seconds:g} s", fix="see what it waits for"
            ) from None
        for line in errors.splitlines():
            told(line)
        done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
        self._check(done)
        return done

    def _check(self, done: subprocess.CompletedProcess[str]) -> None:
        if done.returncode == _ITS_OWN_FAILURE:
            raise failure(self.destination, done.stderr)

    def _words(self) -> list[str]:
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_SECONDS),
            "StrictHostKeyChecking": "accept-new",
            "ServerAliveInterval": "5",
            "ControlMaster": "auto",
            "ControlPath": f"{self._folder}/%C",
            "ControlPersist": "60",
            "ForwardAgent": "no",
            "ForwardX11": "no",
        }
        words = ["ssh", *(["-F", self._config] if self._config else [])]
        return [*words, *(f"-o{name}={value}" for name, value in options.items())]


def failure(destination: str, said: str) -> SshFailed:
    """What OpenSSH said, in words, with what to do."""
    for pattern, what, fix in _WORDS:
        if re.search(pattern, said):
            return SshFailed(
                f"{destination}: {what.format(destination)} ({last_words(said)})", fix=fix.format(destination)
            )
    return SshFailed(f"{destination} cannot be reached: {last_words(said)}", fix=f"see whether ssh {destination} works")


def last_words(text: str) -> str:
    """The last line of what was said."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
