"""A terminal on which a command runs: what it would show to a user's eyes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import pyte


class Terminal:
    """Runs `stoker WORDS` on a terminal of its own."""

    def __init__(self, *words: str, environment: Mapping[str, str], columns: int = 80, lines: int = 24) -> None:
        self._ours, self._theirs = pty.openpty()
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._size(columns, lines)
        self.before = termios.tcgetattr(self._theirs)
        self.raw = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stoker.cli.main", *words],
            env={"TERM": "xterm-256color", **environment},
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def text(self) -> str:
        """What is seen now."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal's own settings are those that it had before the command."""
        return termios.tcgetattr(self._theirs) == self.before

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size."""
        self._screen.resize(lines, columns)
        self._size(columns, lines)
        os.kill(self.process.pid, signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def wait_for(self, is_true: Callable[[str], bool], seconds: float = 60.0) -> str:
        """Read until what is seen is as wanted; returns it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if is_true(self.text):
                return self.text
            self._read()
        raise AssertionError(f"not seen within {seconds:g} s; the screen:\n{self.text}")

    def end(self, seconds: float = 60.0) -> int:
        """Wait until the command has ended; returns its exit code."""
        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            self._read()
        self._read()
        return self.process.wait(timeout=1)

    def _read(self) -> None:
        if select.select([self._ours], [], [], 0.1)[0]:
            block = os.read(self._ours, 1 << 16)
            self.raw += block
            self._stream.feed(block)

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
