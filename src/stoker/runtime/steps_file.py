"""What a program tells of its steps: lines of a file beside its beat, which go the way of its output in a stream of their own."""

from __future__ import annotations

import os
import stat
from typing import List

from .lines import Log

STREAM = "steps"
_MOST_BYTES = 1 << 16  # at a time
_MOST_READS = 16  # at a look: whoever writes more does not keep us from all else
_MOST_BEHIND_BYTES = 1 << 23  # what lies further back is left out
_MOST_BYTES_OF_ALL = 1 << 26
_LONGEST_LINE_BYTES = 1 << 13
_RECORD_BYTES = 100  # so much a line takes on a disk beside its text


class StepsFile:
    """The file of one replica, as far as it has been read. It is the program's own: nothing in it is believed here."""

    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._offset = self._bytes = 0

    def pass_on(self) -> None:
        """Send on what is new in it. Costs next to nothing if nothing is."""
        try:
            found = os.lstat(self._path)  # a link of the program's making leads us nowhere
        except OSError:
            return
        if found.st_size == self._offset or not stat.S_ISREG(found.st_mode):
            return
        if found.st_size < self._offset:
            self._offset = 0  # somebody has begun it anew
        self._offset = max(self._offset, found.st_size - _MOST_BEHIND_BYTES)
        for _ in range(_MOST_READS):
            before, lines = self._offset, self._read()
            self._bytes += sum(map(len, lines)) + _RECORD_BYTES * len(lines)
            if self._offset == before or self._bytes > _MOST_BYTES_OF_ALL:
                return
            self._log.write_all(STREAM, lines)

    def _read(self) -> List[str]:
        """Some of the next lines that are whole. One that is too long is passed over."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                data = os.pread(descriptor, _MOST_BYTES, self._offset)
            finally:
                os.close(descriptor)
        except OSError:
            return []
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _MOST_BYTES:
            end = len(data)
        self._offset += end
        lines = data[:end].splitlines()
        return [line.decode("utf-8", errors="replace") for line in lines if 0 < len(line) <= _LONGEST_LINE_BYTES]
