"""The output of one job: a file of JSON lines in the order of arrival, in which every line has a moment of its own.

A line's moment is the microsecond in which it was printed, but always later than the line that was kept before it, and than
what a reader has been told (`seal`). So the order of the file is the order of the moments: "what comes after T" is found by an
index, nothing has to be sorted, and a line that arrives late, since its replica could not reach us for a while, comes after
everything that any reader has seen already. Nobody who reads on from where they were misses a line or gets one twice.

    {"a": attempt, "r": replica, "n": number, "t": when it was printed, "at": moment, "s": stream, "m": text}

`at` stands only where the moment does not follow from `t` and the line before.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import IO, Any, NamedTuple

from stoker.clock import Clock

from .log_index import BLOCK_BYTES, LogIndex
from .log_limit import LogLimit, shortened

_HEAD = re.compile(rb'\{"a": ("[^"]*"), "r": ("[^"]*"), "n": (\d+), "t": ([^,]+), (?:"at": (\d+), )?"s"')
_READ_BYTES = 1 << 19
_LINES_AT_ONCE = 500
_LATEST_SECONDS = 1e11  # a clock that says more is broken


class LogLine(NamedTuple):
    """One line of one replica."""

    offset: int  # where the next line starts in the job's file; a reader continues from it
    attempt: str
    replica: str  # `worker-0`
    n: int  # its number among the replica's lines
    time: float  # when it was printed
    stream: str  # out, err, service
    text: str
    moment: int = 0  # microseconds since the epoch; grows from line to line


class LogFile:
    """One job's lines. Safe to use from any thread."""

    def __init__(self, path: Path, clock: Clock, limit: LogLimit | None = None) -> None:
        self._path = path
        self._limit = limit or LogLimit(0.0, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._size = 0  # so much of the file is known
        self._numbers: dict[tuple[str, str], int] = {}  # (attempt, replica) → its last number
        self._index = LogIndex()
        self._moment = 0  # the last line's
        self._sealed = 0

    def append(self, attempt: str, replica: str, lines: Iterable[Mapping[str, Any]]) -> tuple[int, bool]:
        """Add what is new of {n, t, s, m}. Returns the replica's last number, and whether anything was new."""
        with self._lock:
            if self._catch_up():  # a line that a crash cut off is closed, so that the next begins one
                with open(self._path, "ab") as cut_off:
                    cut_off.write(b"\n")
                self._catch_up()
            last = self._numbers.get((attempt, replica), 0)
            new = []
            for line in lines:
                if line["n"] > last:
                    last = line["n"]
                    new.append(line)
            if self._limit.is_reached(self._size):
                new = self._limit.instead((attempt, replica), new)
            self._add(attempt, replica, new)
            self._numbers[attempt, replica] = last
            return last, bool(new)

    def end(self, attempt: str, replica: str) -> bool:
        """A replica has no more lines: add what is to be said of those that are not kept. Returns whether there was any."""
        with self._lock:
            new = self._limit.end((attempt, replica))
            self._add(attempt, replica, new)
            return bool(new)

    def is_full(self) -> bool:
        """Whether it holds as much as is kept, as far as is known. Waits for nobody."""
        return self._limit.is_reached(self._size)

    def _add(self, attempt: str, replica: str, lines: list[Mapping[str, Any]]) -> None:
        if not lines:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "ab", buffering=0) as file:
            begin = file.tell()
            data, blocks, moment = self._written(attempt, replica, lines, begin)
            _write_whole(file, data, begin)
        for offset, before in blocks:
            self._index.add(offset, before)
        self._moment, self._size = moment, begin + len(data)

    def last_number(self, attempt: str, replica: str) -> int:
        """The number of the last line that is kept of a replica."""
        with self._lock:
            self._catch_up()
            return self._numbers.get((attempt, replica), 0)

    def seal(self, moment: int, *, by_reader: bool = False) -> int:
        """Let what comes from now on be later than a moment, or than now if that is earlier. Returns that moment.

        `by_reader`: another server writes, and heeds no seal of ours; what it adds is later than the last line.
        """
        with self._lock:
            if by_reader:
                self._catch_up()
                return min(moment, self._moment)
            sealed = min(moment, self._now())
            self._sealed = max(self._sealed, sealed)
            return sealed

    def since(self, moment: int) -> Iterator[LogLine]:
        """The lines of a moment and later, in order."""
        with self._lock:
            self._catch_up()
            place = self._index.place(self._index.find(moment))
        for line in read_lines(self._path, *place):
            if line.moment >= moment:
                yield line

    def until(self, moment: int) -> Iterator[LogLine]:
        """The lines of a moment and earlier, the latest first, a block at a time."""
        with self._lock:
            self._catch_up()
            block = self._index.find(moment + 1)
        while block >= 0:
            with self._lock:
                place, end = self._index.place(block), self._index.end(block)
            lines = read_lines(self._path, *place, end=end)
            yield from reversed(list(takewhile(lambda line: line.moment <= moment, lines)))
            block -= 1

    def _written(
        self, attempt: str, replica: str, lines: list[Mapping[str, Any]], offset: int
    ) -> tuple[bytes, list[tuple[int, int]], int]:
        """The lines as they are kept, the blocks that begin among them, and the last moment."""
        head = f'{{"a": {quoted(attempt)}, "r": {quoted(replica)}, "n": '
        moment, earliest, now = self._moment, self._sealed + 1, self._now()
        next_block, blocks, parts = self._index.next_offset, [], []
        for line in lines:
            if offset >= next_block:
                blocks.append((offset, moment))
                next_block = offset + BLOCK_BYTES
            printed = _microseconds(line["t"])
            follows = max(moment + 1, printed)
            moment = max(moment + 1, earliest, min(printed, now))
            at = "" if moment == follows else f'"at": {moment}, '
            text = f'{head}{line["n"]}, "t": {line["t"]!r}, {at}"s": "{line["s"]}", "m": {quoted(shortened(line["m"]))}}}\n'
            offset += len(text)  # all of it is ASCII
            parts.append(text)
        return "".join(parts).encode(), blocks, moment

    def _catch_up(self) -> bool:
        """Read the numbers and the blocks of what is not known yet: the whole file at first, then what another server has added.

        Returns whether there is a last line that has no end yet.
        """
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size == self._size:
            return False
        if size < self._size:  # it was forgotten meanwhile
            self._numbers, self._index, self._moment, self._size = {}, LogIndex(), 0, 0
        if not size:
            return False
        numbers: dict[tuple[bytes, bytes], bytes] = {}
        index, offset, moment = self._index, self._size, self._moment
        with open(self._path, "rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                if offset >= index.next_offset:
                    index.add(offset, moment)
                offset += len(raw)
                found = _HEAD.match(raw)
                if found is None or not _is_whole(raw):
                    continue
                attempt, replica, n, printed, at = found.groups()
                moment = max(moment + 1, int(at) if at else _microseconds(float(printed)))
                numbers[attempt, replica] = n
        self._numbers |= {(json.loads(a), json.loads(r)): int(n) for (a, r), n in numbers.items()}
        self._moment, self._size = moment, offset
        return offset < size

    def _now(self) -> int:
        return int(self._clock.now() * 1e6)


def read_lines(path: Path, offset: int = 0, moment: int = 0, *, end: int | None = None) -> Iterator[LogLine]:
    """The lines from an offset on, as far as they are whole; `moment`: that of the line before, else moments are not exact."""
    try:
        file = open(path, "rb", buffering=0)
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        for raws in _whole_lines(file, end):
            for raw, line in zip(raws, _parsed(raws), strict=True):
                offset += len(raw) + 1
                found = _told(line, offset, moment)
                if found is None:
                    continue  # the server was cut off in the middle of it; it has been shipped again after
                moment = found.moment
                yield found


def drop_lines(path: Path, attempts: Collection[str]) -> None:
    """Write a file anew without what these attempts have said. For one that nobody has open."""
    part = path.with_name(f"{path.name}.part")
    with open(path, "rb") as lines, open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as kept:
        for raw in lines:
            found = _HEAD.match(raw)
            if found is None or json.loads(found[1]) not in attempts:
                kept.write(raw)
    part.replace(path)


def _told(line: Any, offset: int, moment: int) -> LogLine | None:
    """A line of the file; None for what is no line of ours: it was cut off, or a job has written into the file."""
    try:
        a, r, n, t, s, m = line["a"], line["r"], line["n"], line["t"], line["s"], line["m"]
        is_ours = type(a) is str and type(r) is str and type(n) is int and type(s) is str and type(m) is str
        if not is_ours or type(t) not in (float, int):
            return None
        return LogLine(offset, a, r, n, t, s, m, max(moment + 1, line.get("at") or _microseconds(t)))
    except (KeyError, TypeError, AttributeError):
        return None


def _whole_lines(file: IO[bytes], end: int | None) -> Iterator[list[bytes]]:
    """The lines of a file, some at a time, without their ends. Each read lets other threads in, so that few are quicker."""
    rest = b""
    while block := file.read(_READ_BYTES if end is None else min(_READ_BYTES, end - file.tell())):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            lines = whole.split(b"\n")
            yield from (lines[n : n + _LINES_AT_ONCE] for n in range(0, len(lines), _LINES_AT_ONCE))


def _parsed(raws: list[bytes]) -> list[dict[str, Any] | None]:
    """The lines as JSON, all at once, which is several times quicker; one by one where one is not whole."""
    try:
        found: list[dict[str, Any] | None] = json.loads(b"[" + b",".join(raws) + b"]")
        if len(found) == len(raws):
            return found
    except (ValueError, RecursionError):
        pass
    return [_parsed_one(raw) for raw in raws]


def _parsed_one(raw: bytes) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found


def _microseconds(seconds: float) -> int:
    return int(seconds * 1e6) if 0 <= seconds < _LATEST_SECONDS else 0


def _write_whole(file: IO[bytes], data: bytes, begin: int) -> None:
    """All of it or nothing: what a full disk has cut off is taken back, so that it can be shipped again. Raises OSError."""
    try:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, "the disk is full")
    except OSError:
        file.truncate(begin)
        raise


def _is_whole(raw: bytes) -> bool:
    """Whether a line whose head is whole has its end too. What ends in an escaped quote may be cut off within its text."""
    if not raw.endswith(b'"}\n'):
        return False
    if raw[-4:-3] != b"\\":
        return True
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True
