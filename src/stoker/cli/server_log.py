"""The server's own log: on stderr, a record a line, and not larger than a disk should have to bear."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path

LARGEST_BYTES = 16 << 20
"""Then it is set aside as `server.log.1`, in the place of the one before."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class ServerLog(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr, whatever that is; where it is the log file of this home, it is set aside when it has grown large."""

    def __init__(self, path: Path) -> None:
        """`path`: where stderr leads if the server runs in the background."""
        super().__init__(sys.stderr)
        self._path = path
        self.setFormatter(OneRecord("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, then see how large the file is."""
        super().emit(record)
        try:
            if self._has_grown():
                self._set_aside()
        except OSError:
            pass  # it grows on: to lose the log would be worse

    def _has_grown(self) -> bool:
        written = os.fstat(self.stream.fileno())
        return written.st_size > LARGEST_BYTES and os.path.samestat(written, os.stat(self._path))

    def _set_aside(self) -> None:
        """Both stdout and stderr lead to the new file, so what libraries print goes there as well."""
        os.replace(self._path, f"{self._path}.1")
        fresh = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in {1, self.stream.fileno()}:
            os.dup2(fresh, descriptor)
        os.close(fresh)


class OneRecord(logging.Formatter):
    """A record begins at the margin, and nothing else does: what is quoted in it can forge no other."""

    def format(self, record: logging.LogRecord) -> str:
        """The record; further lines are indented, control characters spelt out."""
        text = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], super().format(record))
        return text.replace("\n", "\n    ")
