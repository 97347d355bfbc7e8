"""Names of files below a bucket: which lead downwards alone, and which stand for what is still being written."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from urllib.parse import unquote

from stoker.core.errors import BadSpec, Violation

_PART = re.compile(r"\..*\.[0-9a-f]{8}\.part", re.DOTALL)
_LONGEST_PART_BYTES = 200  # of a file's own name in that of its part; a file system takes 255 in all


def part_name(name: str) -> str:
    """A hidden name beside a file's, for what is to become it: on the same disk, so that a rename is all that is left to do."""
    above, slash, own = name.rpartition("/")
    own = os.fsencode(own)[:_LONGEST_PART_BYTES].decode(errors="ignore")
    return f"{above}{slash}.{own}.{secrets.token_hex(4)}.part"


def is_part(name: str) -> bool:
    """Whether a file of this name is one that is still being written, and so nobody's to see."""
    return _PART.fullmatch(name) is not None


def is_harmless(name: str) -> bool:
    """Whether a name can only lead downwards. Its decoded forms too: somebody else may decode it once more."""
    return all(map(_leads_down, (name, unquote(name), unquote(unquote(name)))))


def _leads_down(name: str) -> bool:
    if "\x00" in name or "\\" in name or name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return False
    return not any(part in ("..", ".") for part in name.split("/"))


def steps_of(name: str) -> Sequence[str]:
    """The steps to a name. Raises BadSpec for `..`, absolute names, backslashes, NUL, double encodings and drive letters."""
    if not is_harmless(name):
        raise BadSpec([Violation("name", f"{name!r} is not the name of a file below its bucket")])
    return [part for part in name.split("/") if part]
