"""A folder that lies with the site, as one replica reaches it through the server: names, sizes and times, and bytes.

A file appears there whole or not at all, and never from an attempt that has ended.
"""

from __future__ import annotations

import os
from typing import IO, Any, Callable, Dict, Iterator, List
from urllib.parse import quote

from .server import Server, Unreachable

Stamp = List[int]  # its size in bytes, and when it was last written, in nanoseconds
_BLOCK_BYTES = 1 << 18  # a slow link shows progress by each


class Changed(Exception):
    """A file was written to while it was sent: nothing of that is kept."""

    def __str__(self) -> str:
        return "it was written to while it was sent"


class SiteFolder:
    """One of the folders that a launch names, by its number. For one thread."""

    def __init__(self, server: Server, number: int) -> None:
        self._server, self._number = server, number

    def files(self, below: str = "") -> Dict[str, Stamp]:
        """What is there, or below a folder of it: path → stamp."""
        query = f"?below={quote(below, safe='')}" if below else ""
        found = self._server.ask("GET", f"folders/{self._number}{query}").get("files")
        if not isinstance(found, dict):
            raise Unreachable("the answer is not a list of files")
        return found

    def bring(self, path: str, file: IO[bytes], give_up: Callable[[], bool] = lambda: False) -> None:
        """Write a file's bytes into one that is open here. Raises Unacceptable if it is gone, Unreachable if it was cut off."""
        self._server.download(self._at(path), file, give_up)

    def send(self, path: str, file: IO[bytes], sent: Callable[[int], None] = lambda count: None) -> Stamp:
        """Put a file there. Returns its stamp there. Raises Changed if it was written to meanwhile.

        `sent` is called with the bytes of every block.
        """
        before = os.fstat(file.fileno())

        def blocks() -> Iterator[bytes]:
            left = before.st_size
            while left:
                block = file.read(min(_BLOCK_BYTES, left))
                left -= len(block)
                if not block or stamp_of(os.fstat(file.fileno())) != stamp_of(before):
                    raise Changed(path)  # before its last byte, without which the server keeps nothing
                yield block
                sent(len(block))

        where = f"{self._at(path)}?mtime_ns={before.st_mtime_ns}"
        found = self._server.upload(where, blocks(), before.st_size).get("stamp")
        if not isinstance(found, list):
            raise Unreachable("the answer tells of no file")
        return found

    def remove(self, path: str) -> None:
        """Remove a file, or all that is below a folder, if it is there."""
        self._server.ask("DELETE", self._at(path))

    def close(self) -> None:
        """Let go of the connection."""
        self._server.close()

    def _at(self, path: str) -> str:
        try:
            return f"folders/{self._number}/{quote(path)}"
        except UnicodeEncodeError:  # bytes that are no text
            raise BadName(path) from None


class BadName(Exception):
    """A name that no request can hold."""


def stamp_of(found: os.stat_result) -> Stamp:
    """By what it is seen that a file is another one."""
    return [found.st_size, found.st_mtime_ns]


def error_message(error: Exception) -> str:
    """What the server said, without the JSON round it."""
    text = str(error)
    start = text.find("{")
    if start >= 0:
        import json

        try:
            told: Dict[str, Any] = json.loads(text[start:])["error"]
            return str(told["message"])
        except (ValueError, KeyError, TypeError):
            pass
    return text


__all__ = ["BadName", "Changed", "SiteFolder", "Stamp", "Unreachable", "error_message", "stamp_of"]
