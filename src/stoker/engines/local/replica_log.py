"""The lines of a replica, as its supervisor has written them to disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any

from ..status import text_of

_NEAR_BYTES = 1 << 16
_HIGHEST = 1 << 62


def read_log(path: str, after: int) -> Iterator[dict[str, Any]]:
    """The records after a number; none if there is no such file."""
    try:
        with open(path, "rb") as file:
            file.seek(_place_before(file, after))
            for line in file:
                record = _record(line)
                if record is not None and record["n"] > after:
                    yield record
    except FileNotFoundError:
        return


def last_number(path: str) -> int:
    """The number of the last record; 0: there is none."""
    last = 0
    try:
        with open(path, "rb") as file:
            file.seek(_place_before(file, _HIGHEST))
            for record in filter(None, map(_record, file)):
                last = max(last, record["n"])
    except FileNotFoundError:
        pass
    return last


def _place_before(file: IO[bytes], after: int) -> int:
    """A place in a log shortly before the first record after a number. Numbers grow, so that most of it need not be read."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > _NEAR_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of a record
        place = file.tell()
        record = next(filter(None, map(_record, file)), None)
        if record is None or record["n"] > after:
            high = middle
        else:
            low = place
    return low


def _record(line: bytes) -> dict[str, Any] | None:
    """A record of the log; None for one that a crash or a full disk has cut off, or that a program wrote there."""
    try:
        record = json.loads(line.decode("utf-8", errors="replace"))
        return {"n": int(record["n"]), "t": float(record["t"]), "s": str(record["s"]), "m": text_of(record["m"])}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
