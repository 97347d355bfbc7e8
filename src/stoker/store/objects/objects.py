"""Every bucket, wherever it is, and what is done with objects of several."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker.core.errors import AlreadyExists, BadSpec, Conflict, NotFound, Violation
from stoker.core.ids import BUCKET_NAME
from stoker.runtime.umask import make_open_folder
from stoker.store.files import Files
from stoker.store.room import Room

from .bucket import Bucket
from .cloud import CloudBucket
from .hashes import BLOCK_BYTES
from .listing import Wanted
from .local import LocalBucket, Shared
from .object import Asked, Conditions, Object
from .records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An object to copy, and what it must be."""

    bucket: str
    name: str
    conditions: Conditions = field(default_factory=Conditions)


class Objects:
    """The objects of every bucket of Google Cloud Storage's scheme."""

    def __init__(self, files: Files, home: Path, room: Room | None = None) -> None:
        self._files = files
        self._shared = Shared(Records(home / "objects.db"), room or Room(0))

    def through(self, files: Files) -> Objects:
        """The same objects, as far as these files open them."""
        view = copy.copy(self)
        view._files = files
        return view

    def bucket(self, name: str) -> Bucket:
        """A bucket. One that is kept here is there as soon as it is named. Raises BadSpec for an unlawful name."""
        if not BUCKET_NAME.fullmatch(name):
            problem = f"{name[:80]!r} is not a bucket name (3 to 63 lower-case letters, digits, '-', '_', '.')"
            raise BadSpec([Violation("bucket", problem)])
        root = self._files.place(f"gs://{name}/").path
        if root is None:
            return CloudBucket(name, partial(self._files.cloud, "gs"))
        return LocalBucket(name, root, self._shared)

    def buckets(self) -> list[str]:
        """The names of the buckets that are folders here."""
        return list(self._files.buckets())

    def make_bucket(self, name: str) -> Bucket:
        """Make a bucket. Raises AlreadyExists."""
        bucket = self._local(name)
        try:
            make_open_folder(bucket.root, exist_ok=False)
        except FileExistsError:
            raise AlreadyExists(f"there is a bucket {name} already") from None
        return bucket

    def remove_bucket(self, name: str) -> None:
        """Remove a bucket. Raises NotFound, or Conflict if there is an object in it."""
        bucket = self._local(name)
        if name in self._files.mapped:
            raise BadSpec([Violation("bucket", f"{name} is a folder by the setting `buckets`: change that instead")])
        if not bucket.root.is_dir():
            raise NotFound(f"no bucket {name}")
        if bucket.list(Wanted(limit=1)).objects:
            raise Conflict(
                f"the bucket {name} is not empty", fix=f"remove its objects: gcloud storage rm gs://{name}/**"
            )
        for folder, _, _ in os.walk(bucket.root, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)

    def copy(self, sources: Sequence[Source], bucket: str, asked: Asked) -> Object:
        """Make one object of the content of others, one after the other. Raises NotFound or PreconditionFailed."""
        target = self.bucket(bucket)
        asked.conditions.check(target.find(asked.name))
        with target.write(asked.name) as part:
            for source in sources:
                with self.bucket(source.bucket).read(source.name) as (found, file):
                    source.conditions.check(found)
                    while block := file.read(BLOCK_BYTES):
                        part.write(block)
            return target.commit(part, asked)

    def _local(self, name: str) -> LocalBucket:
        bucket = self.bucket(name)
        if not isinstance(bucket, LocalBucket):
            raise BadSpec([Violation("bucket", f"{name} is a bucket of the cloud: make and remove it there")])
        return bucket
