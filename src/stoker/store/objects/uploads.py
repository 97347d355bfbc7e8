"""Uploads that are continued: after a dropped connection, after a restart of the server, for a week.

What was asked for is in a file of the home, the bytes are in the part beside the object to be. Nothing is locked while bytes are
awaited: a block says where it belongs, so one that comes twice is taken once, and a connection that hangs is in nobody's way.
"""

from __future__ import annotations

import copy
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker.clock import Clock
from stoker.core.errors import BadSpec, NotFound, PreconditionFailed, Unavailable, Violation
from stoker.store.files import write_errors
from stoker.store.rows import decode, encode

from .hashes import Hashes
from .object import Asked, Object
from .objects import Objects
from .parts import LocalPart

KEPT_SECONDS = 7 * 24 * 3600.0
_ID = re.compile(r"[A-Za-z0-9_-]{43}")
_SWEEP_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload as it is now."""

    id: str
    bucket: str
    asked: Asked
    part: str  # the name of its part, in the bucket or the spool
    begun_at: float
    size: int | None = None  # of the whole, where that was said
    is_done: bool = False


class Uploads:
    """The uploads that are under way. Safe to call from any thread."""

    def __init__(self, folder: Path, objects: Objects, clock: Clock) -> None:
        self._folder = folder
        self._objects = objects
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._next_sweep = 0.0

    def through(self, objects: Objects) -> Uploads:
        """The same uploads, as far as these objects may be written."""
        view = copy.copy(self)
        view._objects = objects
        return view

    def begin(self, bucket: str, asked: Asked, size: int | None = None) -> Upload:
        """Begin one. Raises BadSpec or PreconditionFailed for what could not become an object anyway."""
        self._sweep()
        target = self._objects.bucket(bucket)
        asked.conditions.check(target.find(asked.name))
        part = target.begin(asked.name, self._folder)
        upload = Upload(
            id=secrets.token_urlsafe(32),
            bucket=bucket,
            asked=asked,
            part=part.name,
            size=size,
            begun_at=self._clock.now(),
        )
        self._write(upload)
        return upload

    def get(self, id: str) -> Upload:
        """An upload. Raises NotFound."""
        try:
            return decode(Upload, self._path(id).read_text())
        except (OSError, ValueError):
            raise NotFound("no such upload; it was given up, or is over since a week ago") from None

    def received(self, id: str) -> int:
        """How many bytes have come. Raises NotFound."""
        with self._part(id) as part:
            return part.size

    def append(self, id: str, at: int, block: bytes) -> None:
        """Take a block that belongs at a position, as far as it is new. Raises NotFound, or BadSpec for a gap."""
        with self._part(id) as part:
            if at > part.size:
                problem = f"bytes from {at} on were sent, and {part.size} have come so far"
                raise BadSpec([Violation("Content-Range", problem)], fix="ask how far it is: Content-Range: bytes */*")
            if new := block[part.size - at :]:
                part.write(new)

    def finish(self, id: str, hashes: Hashes) -> Object:
        """Make the object of what has come. Raises BadSpec or PreconditionFailed: then the upload is over, without an object."""
        with self._part(id) as part:
            upload = self.get(id)
            try:
                hashes.check(part.hashes)
                made = self._objects.bucket(upload.bucket).commit(part, upload.asked)
            except (BadSpec, PreconditionFailed):
                self._path(id).unlink(missing_ok=True)
                part.drop()
                raise
            self._write(replace(upload, is_done=True))
            return made

    def cancel(self, id: str) -> None:
        """Give one up, with what has come. Raises NotFound."""
        with self._part(id) as part:
            self._path(id).unlink(missing_ok=True)
            part.drop()

    @contextmanager
    def _part(self, id: str) -> Iterator[LocalPart]:
        """The part of an upload that is not over, for ourselves alone. Raises NotFound."""
        with self._lock:
            kept = self._kept.setdefault(id, _Kept())
        with kept.lock:
            try:
                upload = self.get(id)
                if upload.is_done:
                    raise NotFound("this upload is done")
                if kept.part is None:  # after a restart: what has come is read again, for its hashes
                    kept.part = self._resumed(upload)
                yield kept.part
            except Unavailable:
                kept.part = None  # what has come is what the disk has of it
                raise
            finally:
                if not self._is_live(id):
                    with self._lock:
                        self._kept.pop(id, None)

    def _resumed(self, upload: Upload) -> LocalPart:
        try:
            return self._objects.bucket(upload.bucket).resume(upload.part, upload.asked.name, self._folder)
        except BadSpec:
            raise NotFound("this upload cannot be continued: begin it anew") from None

    def _is_live(self, id: str) -> bool:
        try:
            return not self.get(id).is_done
        except NotFound:
            return False

    def _write(self, upload: Upload) -> None:
        path = self._path(upload.id)
        temporary = path.with_suffix(".tmp")
        with write_errors(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(encode(upload))
            temporary.replace(path)

    def _path(self, id: str) -> Path:
        """Where an upload is written down. Raises NotFound for what is no id."""
        if not _ID.fullmatch(id):
            raise NotFound("no such upload")
        return self._folder / f"{id}.json"

    def _sweep(self) -> None:
        """Give up what is too old. Looked for now and then, when something else begins."""
        now = self._clock.now()
        with self._lock:
            if now < self._next_sweep:
                return
            self._next_sweep = now + _SWEEP_SECONDS
        for path in self._folder.glob("*.json"):
            with suppress(NotFound):
                upload = self.get(path.stem)
                if now - upload.begun_at > KEPT_SECONDS:
                    path.unlink(missing_ok=True)
                    if not upload.is_done:
                        self._resumed(upload).drop()


@dataclass(slots=True)
class _Kept:
    """What is in memory of an upload: its part with the hashes so far, and who may use it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    part: LocalPart | None = None
