"""The audit log: every request that may change something, as a JSON line: when, who, from where, what, and how it was answered.

Wrong tokens have a file of their own, `audit-refused.log`: nobody washes out what others did by sending more of them.

What befalls jobs stands in their story as well, with `by`. Ending the server, writing files and making tokens stand here alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LARGEST_BYTES = 16 << 20
"""Then it is set aside as `audit.log.1`, in the place of the one before."""
_LONGEST_PATH = 1000


@dataclass(frozen=True, slots=True)
class Audit:
    """Appends to the file. A line that cannot be written is lost: a full disk must not keep anybody from tidying up."""

    path: Path
    clock: Callable[[], float] = time.time

    def refused(self) -> Audit:
        """The log of wrong tokens, beside it."""
        return Audit(self.path.with_name("audit-refused.log"), self.clock)

    def note(self, *, user: str, address: str, method: str, path: str, status: int) -> None:
        """One request, answered. The query is left out: addresses may hold what is secret."""
        line = {
            "at": round(self.clock(), 3),
            "user": user,
            "from": address,
            "method": method,
            "path": path[:_LONGEST_PATH],
            "status": status,
        }
        try:
            with open(self.path, "ab", buffering=0, opener=_for_me_alone) as file:
                file.write(json.dumps(line).encode() + b"\n")  # in ASCII: a forged newline is no line
                is_full = file.tell() > LARGEST_BYTES
            if is_full:
                os.replace(self.path, f"{self.path}.1")
        except OSError:
            pass


def _for_me_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
