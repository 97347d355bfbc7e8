"""The program's output: cut into lines, written to disk first, then shipped to the server in order."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional

from .server import LONGEST_PAUSE_SECONDS, Refused, Server, Unacceptable, Unreachable

LONGEST_LINE_BYTES = 64 * 1024
_LARGEST_BATCH_BYTES = 1 << 20


class Lines:
    """Turns chunks of one stream into lines. A carriage return rewrites its line, as on a screen: the last writing counts."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> List[str]:
        """The lines that this chunk completes."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        lines = [_clean(part) for line in whole for part in _parts(line)]
        while len(self._rest) > LONGEST_LINE_BYTES:  # a line without an end is cut into several
            lines.append(_clean(self._rest[:LONGEST_LINE_BYTES]))
            self._rest = self._rest[LONGEST_LINE_BYTES:]
        return [line for line in lines if line]

    def end(self) -> List[str]:
        """What is left when the stream ends without a newline."""
        line, self._rest = _clean(self._rest), b""
        return [line] if line else []


def _number(record: Dict[str, Any]) -> int:
    return int(record["n"])


def _parts(line: bytes) -> List[bytes]:
    return [line[n : n + LONGEST_LINE_BYTES] for n in range(0, len(line), LONGEST_LINE_BYTES)]


def _clean(line: bytes) -> str:
    """One line as text: what a screen would show of it, without the backspaces of progress bars; blank ones become empty."""
    seen = line.rstrip(b"\r").rsplit(b"\r", 1)[-1].replace(b"\x08", b"")
    return seen.decode("utf-8", errors="replace").rstrip()


class Log:
    """Numbers every line and writes it to disk; a thread ships what is on disk. Remembers the last of stderr.

    The disk is the queue: a server that is away for long costs no memory here. Only when the disk is full are lines kept in
    memory, the last thousand of them.
    """

    def __init__(self, path: str, server: Optional[Server]) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)
        self._number = 0
        self._shipped_to = self._file.tell()
        self._is_torn = False  # the last record on disk was cut off
        self._unwritten: Deque[Dict[str, Any]] = deque(maxlen=1000)
        self._report: Dict[str, Any] = {}
        self._ending = False
        self._given_up = server is None
        self._server = server
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._ship_for_ever, name="shipper", daemon=True)
        self.last_errors: Deque[str] = deque(maxlen=200)
        self._thread.start()

    @property
    def last_number(self) -> int:
        """The number of the last line."""
        return self._number

    def write(self, stream: str, line: str) -> None:
        """Add a line of `out`, `err` or `service` (the supervisor's own)."""
        if stream == "err":
            self.last_errors.append(line)
        with self._lock:
            self._number += 1
            record = {"n": self._number, "t": time.time(), "s": stream, "m": line}
            if not self._write_to_disk(json.dumps(record).encode() + b"\n"):
                self._unwritten.append(record)  # a full disk here must not end the training: the server may have room
        self._news.set()

    def _write_to_disk(self, data: bytes) -> bool:
        try:
            whole = b"\n" + data if self._is_torn else data
            written = self._file.write(whole)
            self._is_torn = written != len(whole)
            return not self._is_torn
        except OSError:
            return False

    def report(self, what: Dict[str, Any]) -> None:
        """Tell the server something about the replica, after all lines before it. The newest holds all that earlier ones said."""
        with self._lock:
            self._report = what
        self._news.set()

    def drain(self, seconds: float) -> None:
        """Wait until everything is shipped, but no longer than this. What is not shipped is on disk."""
        self._ending = True
        self._news.set()
        self._thread.join(seconds)
        self._file.close()

    def _ship_for_ever(self) -> None:
        while not self._given_up:
            self._news.wait()
            self._news.clear()
            ending = self._ending
            while not self._given_up and self._ship_once():
                pass
            if ending:
                return

    def _ship_once(self) -> bool:
        """One request with the next lines, and the report once there are no more. Returns whether there was anything."""
        with self._lock:
            lines, offset, is_all = self._read_from_disk()
            while self._unwritten and (is_all or (lines and self._unwritten[0]["n"] < lines[-1]["n"])):
                lines.append(self._unwritten.popleft())
            lines.sort(key=_number)  # the server takes a replica's lines in their order
            report: Dict[str, Any] = {}
            if is_all:
                report, self._report = self._report, {}
        if not lines and not report:
            return False
        self._send("report" if report else "lines", {"lines": lines, **report})
        self._shipped_to = offset
        return True

    def _read_from_disk(self) -> "tuple[List[Dict[str, Any]], int, bool]":
        """The next lines on disk, where they end, and whether that is all there are."""
        lines: List[Dict[str, Any]] = []
        offset = self._shipped_to
        with open(self._path, "rb") as file:
            file.seek(offset)
            for raw in file:
                if offset - self._shipped_to > _LARGEST_BATCH_BYTES:
                    return lines, offset, False
                if not raw.endswith(b"\n"):
                    break
                offset += len(raw)
                try:
                    lines.append(json.loads(raw))
                except ValueError:
                    continue  # a full disk has cut it off; it was kept in memory
        return lines, offset, True

    def _send(self, what: str, body: Dict[str, Any]) -> None:
        pause = 0.05
        while not self._given_up and self._server is not None:
            try:
                self._server.post(what, body)
                return
            except Refused:
                self._given_up = True
            except Unacceptable as error:
                print(f"the server does not take these lines: {error}", file=sys.stderr)
                return
            except Unreachable:
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
