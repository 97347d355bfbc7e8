"""A supervisor that this server has started itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence


class Child:
    """A process in a session of its own, which we may outlive and which may outlive us."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], errors_file: str) -> None:
        """Start it, with nothing to read and its complaints in a file. Raises OSError."""
        write = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._pid = os.posix_spawn(
            command[0],
            list(command),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, errors_file, write, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._lives = True

    def kill(self) -> None:
        """End it, if it has not."""
        if self.lives():
            os.kill(self._pid, signal.SIGKILL)

    def lives(self) -> bool:
        """Whether it has not ended yet. One that has is collected, so that it is no zombie."""
        if self._lives:
            try:
                self._lives = os.waitpid(self._pid, os.WNOHANG)[0] == 0
            except ChildProcessError:
                self._lives = False
        return self._lives
