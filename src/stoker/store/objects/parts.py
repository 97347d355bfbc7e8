"""What has come of an object so far: in a hidden file beside it, or on its way to a cloud."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from stoker.runtime.umask import make_open_file, make_open_folder
from stoker.store.files import cloud_errors, write_errors

from .hashes import BLOCK_BYTES, Digest, Hashes

_SYNC_BYTES = 64 << 20
_syncers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sync")


class Part(ABC):
    """What has come of an object so far."""

    def __init__(self) -> None:
        self._digest = Digest()

    @property
    def size(self) -> int:
        """The bytes that have come."""
        return self._digest.size

    @property
    def hashes(self) -> Hashes:
        """Of the bytes that have come."""
        return self._digest.hashes

    @abstractmethod
    def write(self, block: bytes) -> None:
        """The next block."""

    @abstractmethod
    def drop(self) -> None:
        """Give it up. Of no effect once it has become the object."""


class LocalPart(Part):
    """A hidden file. It holds no descriptor, so that an upload which nobody continues costs no more than its disk space.

    What has come is brought to the disk while more comes. So the last answer, before which all must be there, never waits long.
    """

    def __init__(self, path: Path, uri: str) -> None:
        """Goes on where the file ends, if there is one. `uri`: of the object, for errors."""
        super().__init__()
        self.path = path
        self._uri = uri
        self._syncing: Future[None] | None = None
        with write_errors(uri):
            make_open_folder(path.parent)
            make_open_file(path)
            with open(path, "rb") as file:
                while block := file.read(BLOCK_BYTES):
                    self._digest.update(block)
        self._next_sync = self.size + _SYNC_BYTES

    def write(self, block: bytes) -> None:
        """Append a block, or nothing of it."""
        with write_errors(self._uri):
            try:
                with open(self.path, "r+b") as file:
                    if file.seek(0, os.SEEK_END) != self.size:
                        raise OSError(errno.EIO, "what had come of it is gone")
                    file.write(block)
            except OSError:
                with suppress(OSError):
                    os.truncate(self.path, min(self.size, self.path.stat().st_size))
                raise
            self._digest.update(block)
            if self.size >= self._next_sync:
                if self._syncing is not None:
                    self._syncing.result()
                self._syncing = _syncers.submit(_sync, self.path)
                self._next_sync = self.size + _SYNC_BYTES

    def sync(self) -> None:
        """Make durable what has come."""
        with write_errors(self._uri):
            if self._syncing is not None:
                self._syncing.result()
            _sync(self.path)

    def drop(self) -> None:
        """Give it up. Of no effect once it has become the object."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


class CloudPart(Part):
    """A file of a cloud, which is sent on as it comes and is there only once it is whole."""

    def __init__(self, file: Any, uri: str) -> None:
        """`file`: of fsspec, opened with `autocommit=False`."""
        super().__init__()
        self._file = file
        self._uri = uri

    def write(self, block: bytes) -> None:
        """Send a block on."""
        with cloud_errors(self._uri):
            self._file.write(block)
        self._digest.update(block)

    def finish(self) -> None:
        """Make the file of what has come."""
        file, self._file = self._file, None
        with cloud_errors(self._uri):
            file.close()
            file.commit()

    def drop(self) -> None:
        """Give it up. Of no effect once it is finished."""
        if self._file is not None:
            with suppress(Exception):  # whatever a cloud says to that: what was not finished is not there
                self._file.discard()
