"""The program's output: cut into lines, written to disk first, then shipped to the server in order."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import deque
from typing import Any, BinaryIO, Deque, Dict, List, Optional

from .server import LONGEST_PAUSE_SECONDS, Refused, Server, Unreachable

LONGEST_LINE_BYTES = 64 * 1024
_LARGEST_BATCH = 500


class Lines:
    """Turns chunks of one stream into lines. A carriage return rewrites its line, as on a screen: the last writing counts."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> List[str]:
        """The lines that this chunk completes."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        lines = [line for line in map(_clean, whole) if line]
        if len(self._rest) > LONGEST_LINE_BYTES:
            lines.append(_clean(self._rest))
            self._rest = b""
        return lines

    def end(self) -> List[str]:
        """What is left when the stream ends without a newline."""
        line, self._rest = _clean(self._rest), b""
        return [line] if line else []


def _clean(line: bytes) -> str:
    """One line as text: what a screen would show of it, without the backspaces of progress bars; blank ones become empty."""
    seen = line.rstrip(b"\r").rsplit(b"\r", 1)[-1].replace(b"\x08", b"")
    return seen[:LONGEST_LINE_BYTES].decode("utf-8", errors="replace").rstrip()


class Log:
    """Numbers every line, writes it to disk, and hands it to a thread that ships it. Remembers the last of stderr."""

    def __init__(self, file: BinaryIO, server: Optional[Server]) -> None:
        self._file = file
        self._number = 0
        self._queue: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        self._server = server
        self._thread = threading.Thread(target=self._ship_for_ever, name="shipper", daemon=True)
        self._given_up = server is None
        self._disk_failed = False
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
        self._number += 1
        record = {"n": self._number, "t": time.time(), "s": stream, "m": line}
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
        except OSError as error:  # a full disk here must not end the training: the server may have room
            if not self._disk_failed:
                self._disk_failed = True
                self._queue.put({"line": {**record, "s": "service", "m": f"the log on this machine has gaps: {error}"}})
                self._number += 1
                record["n"] = self._number
        self._queue.put({"line": record})

    def report(self, what: Dict[str, Any]) -> None:
        """Tell the server something about the replica, after all lines before it."""
        self._queue.put({"report": what})

    def drain(self, seconds: float) -> None:
        """Wait until everything is shipped, but no longer than this. What is not shipped is on disk."""
        self._queue.put(None)
        self._thread.join(seconds)

    def _ship_for_ever(self) -> None:
        open_for_work = True
        while open_for_work:
            batch = [self._queue.get()]
            while len(batch) < _LARGEST_BATCH:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            open_for_work = None not in batch
            self._ship([item for item in batch if item is not None])

    def _ship(self, batch: List[Dict[str, Any]]) -> None:
        """One request for a batch: its lines, and the newest report, which holds all that earlier ones said."""
        lines = [item["line"] for item in batch if "line" in item]
        reports = [item["report"] for item in batch if "report" in item]
        if reports:
            self._send("report", {"lines": lines, **reports[-1]})
        elif lines:
            self._send("lines", {"lines": lines})

    def _send(self, what: str, body: Dict[str, Any]) -> None:
        pause = 0.05
        while not self._given_up and self._server is not None:
            try:
                self._server.post(what, body)
                return
            except Refused:
                self._given_up = True
            except Unreachable:
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
