"""The two hashes of an object: CRC32C, which costs next to nothing, and MD5, which costs most of an upload."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

import google_crc32c

from stoker.core.errors import BadSpec, Violation

BLOCK_BYTES = 1 << 20
_MOST_UNFINISHED = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashes:
    """Hashes of one content as Cloud Storage writes them, in base64; empty: not known, or not asked for."""

    crc32c: str = ""  # of the four bytes, the highest first
    md5: str = ""

    def check(self, found: Hashes) -> None:
        """Raise BadSpec if a hash that is known here is another one there."""
        wrong = [
            Violation(field, f"{expected} was announced, and what came has {actual}; nothing was written")
            for field, expected, actual in (
                ("crc32c", self.crc32c, found.crc32c),
                ("md5Hash", self.md5, found.md5),
            )
            if expected and actual and expected != actual
        ]
        if wrong:
            raise BadSpec(wrong, fix="send it again: it was damaged on its way")


class Digest:
    """Hashes what goes by, block by block."""

    def __init__(self, *, md5: bool = True) -> None:
        self.size = 0
        self._crc32c = 0
        self._md5 = hashlib.md5(usedforsecurity=False) if md5 else None

    def update(self, block: bytes) -> None:
        """The next block."""
        self._crc32c = google_crc32c.extend(self._crc32c, block)
        if self._md5 is not None:
            self._md5.update(block)
        self.size += len(block)

    @property
    def hashes(self) -> Hashes:
        """Of all that went by so far."""
        return Hashes(
            crc32c=_text(self._crc32c.to_bytes(4, "big")),
            md5=_text(self._md5.digest()) if self._md5 is not None else "",
        )


class Hasher:
    """Hashes files that somebody else wrote, for a limited time each time it is asked.

    What a large file has cost so far is kept, and the next who asks goes on from there: so its hashes are known in the end, and
    nobody waits for them longer than a client waits for an answer.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._unfinished: dict[object, _Unfinished] = {}

    def hashes(self, file: IO[bytes], key: object, size: int, *, seconds: float, md5: bool = True) -> Hashes | None:
        """Of the first `size` bytes of a file; None if the time was too short. `key`: what tells this content from others."""
        until, key = self._now() + seconds, (key, md5)
        with self._lock:
            unfinished = self._unfinished.setdefault(key, _Unfinished(Digest(md5=md5), threading.Lock()))
            while len(self._unfinished) > _MOST_UNFINISHED:
                del self._unfinished[next(iter(self._unfinished))]
        if not unfinished.lock.acquire(timeout=max(seconds, 0.0)):
            return None  # somebody else is at it, and takes longer than we may
        try:
            digest = unfinished.digest
            file.seek(digest.size)
            while digest.size < size:
                if self._now() > until:
                    return None
                block = file.read(min(BLOCK_BYTES, size - digest.size))
                if not block:
                    break  # it has been cut off meanwhile
                digest.update(block)
            with self._lock:
                self._unfinished.pop(key, None)
            return digest.hashes if digest.size == size else None
        finally:
            unfinished.lock.release()


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """How far a file has been read, and who may read on."""

    digest: Digest
    lock: threading.Lock


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
