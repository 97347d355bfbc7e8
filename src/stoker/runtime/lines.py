"""The program's output: cut into lines, written to disk first, then shipped to the server in order."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Deque, Dict, List, Optional

from .errors import complain
from .server import LONGEST_PAUSE_SECONDS, Refused, Server, Unacceptable, Unreachable

LONGEST_LINE_BYTES = 64 * 1024
_LONGEST_CHARACTER_BYTES = 4  # in UTF-8, where all but the first are 10xxxxxx
_LARGEST_BATCH_BYTES = 1 << 18
_LONGEST_RECORD_BYTES = 6 * LONGEST_LINE_BYTES + 1000
_MOST_IN_MEMORY = 1000
_ASK_AGAIN_SECONDS = 10.0
_CHATTY_BATCH_BYTES = 1 << 14
_CHATTY_PAUSE_SECONDS = 0.05
_UNHEARD = ("profile", "usage")  # what is found of a program is not a word of its own


class Lines:
    """Turns chunks of one stream into lines. A carriage return rewrites its line, as on a screen: the last writing counts."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> List[str]:
        """The lines that this chunk completes."""
        data = self._rest + chunk
        is_short = data.find(b"\n") <= LONGEST_LINE_BYTES and len(chunk) <= LONGEST_LINE_BYTES
        if is_short and b"\n" in chunk and b"\r" not in data and b"\x08" not in data:
            return self._plain(data)
        *whole, rest = data.split(b"\n")
        parts = [part for line in whole for part in _parts(_last_writing(line))]
        *cut_off, self._rest = _parts(_last_writing(rest))  # a line without an end is cut into several
        return [line for line in map(_clean, parts + cut_off) if line]

    def _plain(self, data: bytes) -> List[str]:
        """What nearly every program prints: nothing to rewrite and nothing to cut, so all of it is decoded at once."""
        whole, _, self._rest = data.rpartition(b"\n")
        lines = whole.decode("utf-8", errors="replace").split("\n")
        return [line for line in map(str.rstrip, lines) if line]

    def take_rest(self) -> bytes:
        """The beginning of a line that has no end yet; from now on it is not known here."""
        rest, self._rest = self._rest, b""
        return rest

    def end(self) -> List[str]:
        """What is left when the stream ends without a newline."""
        line, self._rest = _clean(self._rest), b""
        return [line] if line else []


def _last_writing(line: bytes) -> bytes:
    """What a screen would show of a line. A carriage return at its end stays: if more comes, that rewrites the line."""
    seen = line.rstrip(b"\r")
    return line[seen.rfind(b"\r") + 1 : len(seen) + 1]


def _parts(line: bytes) -> List[bytes]:
    """A line, cut where it is too long, but not within a character. The last part may go on."""
    parts, begin = [], 0
    while len(line) - begin > LONGEST_LINE_BYTES:
        end = begin + LONGEST_LINE_BYTES
        end -= next((n for n in range(_LONGEST_CHARACTER_BYTES) if line[end - n] & 0xC0 != 0x80), 0)
        parts.append(line[begin:end])
        begin = end
    return [*parts, line[begin:]]


def _clean(line: bytes) -> str:
    """One line as text, without the backspaces of progress bars; blank ones become empty."""
    return line.replace(b"\x08", b"").decode("utf-8", errors="replace").rstrip()


class Log:
    """Numbers every line and writes it to disk; a thread ships what is on disk. Remembers the last of both streams.

    The disk is the queue: a server that is away for long costs no memory here. Only when the disk is full are lines kept in
    memory, the last thousand of them, until there is room again: no line goes to disk before one that was printed earlier.
    """

    def __init__(self, path: str, server: Optional[Server]) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)
        self._number = 0
        self.heard = 0
        """Of all lines, those by which one knows that the program goes on."""
        self._shipped_to = self._file.tell()
        self._is_torn = False  # the last record on disk was cut off
        self._was_full = False  # some record on disk may be cut off, and some may have been shipped from memory already
        self._unwritten: Deque[str] = deque(maxlen=_MOST_IN_MEMORY)
        self._shipped_number = 0  # of the last line, once the disk has been full
        self._asks_at = 0.0  # when the server is next asked whether it has them all
        self._kept_number = 0  # of the last line that the server has, as far as is known
        self._report: Dict[str, Any] = {}
        self._has_told = False
        self._ending = threading.Event()
        self._given_up = server is None
        self._server = server
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._ship_for_ever, name="shipper", daemon=True)
        self.last_errors: Deque[str] = deque(maxlen=200)
        self.last_output: Deque[str] = deque(maxlen=200)
        self._thread.start()

    @property
    def has_told(self) -> bool:
        """Whether the server has taken the last report, or does not want any."""
        return self._has_told or self._given_up

    def is_on_disk(self) -> bool:
        """Whether every line is on disk, now at the latest."""
        with self._lock:
            return self._write_to_disk([])

    @property
    def last_number(self) -> int:
        """The number of the last line."""
        return self._number

    def write(self, stream: str, line: str) -> None:
        """Add a line of `out`, `err` or `service` (the supervisor's own)."""
        self.write_all(stream, [line])

    def hear(self) -> None:
        """The program has printed something of which no line becomes known."""
        with self._lock:
            self.heard += 1

    def write_all(self, stream: str, lines: List[str]) -> int:
        """Add lines that came together: they are of one time, and are written at once. Returns how many bytes they take."""
        if not lines:
            return 0
        if stream == "err":
            self.last_errors.extend(lines)
        elif stream == "out":
            self.last_output.extend(lines)
        with self._lock:
            if stream not in _UNHEARD:
                self.heard += len(lines)
            first, now = self._number + 1, time.time()
            self._number += len(lines)
            records = [
                f'{{"n": {n}, "t": {now!r}, "s": "{stream}", "m": {quoted(line)}}}\n'
                for n, line in enumerate(lines, first)
            ]
            self._write_to_disk(records)
        self._news.set()
        return sum(map(len, records))

    def _write_to_disk(self, records: List[str]) -> bool:
        """After those that had no room so far. Returns whether all are on disk.

        The others stay in memory, to be shipped from there: a full disk must not end the training, and the server may have room.
        """
        records = [*self._unwritten, *records]
        if not records:
            return True
        data = "".join(records).encode()
        mend = b"\n" if self._is_torn else b""
        try:
            written = (self._file.write(mend + data) or 0) - len(mend)
        except (OSError, ValueError):  # it is full, or has been closed because the server takes nothing any more
            written = -len(mend)
        kept = 0
        while kept < len(records) and written >= len(records[kept]):
            written -= len(records[kept])
            kept += 1
        if written >= 0:
            self._is_torn = written > 0
        self._unwritten = deque(records[kept:], _MOST_IN_MEMORY)
        self._was_full = self._was_full or kept < len(records)
        return not self._unwritten

    def report(self, what: Dict[str, Any]) -> None:
        """Tell the server something about the replica, after all lines before it. The newest holds all that earlier ones said."""
        with self._lock:
            self._report = what
            self._has_told = False
        self._news.set()

    def drain(self, seconds: float) -> None:
        """Wait until everything is shipped, for as long as the server takes any of it within so many seconds.

        What is not shipped is on disk.
        """
        self._ending.set()
        self._news.set()
        shipped_to = -1
        while self._thread.is_alive() and shipped_to != self._shipped_to:
            shipped_to = self._shipped_to
            self._thread.join(seconds)
        self._file.close()

    def _ship_for_ever(self) -> None:
        while not self._given_up:
            self._news.wait()
            self._news.clear()
            ending = self._ending.is_set()
            while not self._given_up:
                shipped = self._ship_once()
                if not shipped:
                    break
                if _CHATTY_BATCH_BYTES < shipped < _LARGEST_BATCH_BYTES // 2:
                    self._ending.wait(_CHATTY_PAUSE_SECONDS)  # many small requests would cost the server more than few
            if ending:
                return

    def _ship_once(self) -> int:
        """One request with the next lines, and the report once there are no more. Returns its size; 0 if there was nothing."""
        with self._lock:
            if self._unwritten:
                self._write_to_disk([])  # there may be room again
            data, offset, is_all = self._read_from_disk()
            last = self._shipped_number
            if self._was_full:
                data, last, is_all = self._whole_and_new(data, is_all)
            report: Dict[str, Any] = {}
            if is_all:
                report, self._report = self._report, {}
        if not data and not report:
            passed, self._shipped_to = offset - self._shipped_to, offset
            return passed
        rest = (", " + json.dumps(report)[1:]) if report else "}"
        lines = data[:-1].replace(b"\n", b",")  # a record is JSON and has no newline of its own
        asks = b'"after": %d, ' % self._kept_number if time.monotonic() >= self._asks_at else b""
        body = b"{" + asks + b'"lines": [' + lines + b"]" + rest.encode()
        answer = self._send("report" if report else "lines", body)
        self._shipped_to, self._shipped_number = offset, last
        if answer is not None:
            after = answer.get("after", self._kept_number)
            if type(after) is int and 0 <= after < self._kept_number:
                self._rewind(after, report)
                return len(body)
            self._kept_number = _number(data[data.rfind(b"\n", 0, -1) + 1 :]) or self._kept_number
        with self._lock:
            self._has_told = bool(report) and not self._report
        return len(body)

    def _read_from_disk(self) -> "tuple[bytes, int, bool]":
        """The next records on disk, where they end, and whether that is all there are."""
        with open(self._path, "rb") as file:
            file.seek(self._shipped_to)
            data = file.read(_LARGEST_BATCH_BYTES)
            is_all = len(data) < _LARGEST_BATCH_BYTES
            if not is_all and b"\n" not in data:  # a record of many characters that JSON writes with six
                data += file.readline(_LONGEST_RECORD_BYTES)
                if b"\n" not in data:  # it is none of ours
                    return b"", self._shipped_to + len(data), False
        end = data.rfind(b"\n") + 1
        return data[:end], self._shipped_to + end, is_all

    def _whole_and_new(self, records: bytes, is_all: bool) -> "tuple[bytes, int, bool]":
        """What is on the disk and in memory, without what a full disk has cut off or was shipped; and the last number.

        And whether that is all: of many in memory some come at a time.
        """
        last, size = self._shipped_number, 0
        found: List[bytes] = []
        on_disk = records.splitlines()
        for place, record in enumerate([*on_disk, *(r.encode() for r in self._unwritten if is_all)]):
            if place >= len(on_disk) and size > _LARGEST_BATCH_BYTES:
                return b"".join(found), last, False
            number = _number(record)  # of one that is not whole 0: it stands whole further on, or in memory
            if number > last:
                last = number
                found.append(record.strip() + b"\n")
                size += len(found[-1])
        return b"".join(found), last, is_all

    def _rewind(self, after: int, report: Dict[str, Any]) -> None:
        """The server has lost lines that it had, and the report with them: go back to those after a number."""
        self._kept_number = self._shipped_number = after
        self._asks_at = time.monotonic() + _ASK_AGAIN_SECONDS  # should it have lost them for good, this comes to an end
        self._shipped_to = 0
        with open(self._path, "rb") as file:
            for record in file:
                if _number(record) > after:
                    break
                self._shipped_to += len(record)
        with self._lock:
            self._report = self._report or report

    def _send(self, what: str, body: bytes) -> Optional[Dict[str, Any]]:
        """What the server answers; None: it does not want it."""
        pause = 0.05
        while not self._given_up and self._server is not None:
            try:
                return self._server.post(what, body)
            except Refused:
                self._given_up = True
            except Unacceptable as error:
                complain(f"the server does not take these lines: {error}")
                return None
            except Unreachable:
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
        return None


def _number(record: bytes) -> int:
    """The number of a record; 0 of what is none of ours."""
    try:
        return int(json.loads(record)["n"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0
