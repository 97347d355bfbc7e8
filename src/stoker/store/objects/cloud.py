"""A bucket of a real cloud, through fsspec: what it knows of an object is what there is to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from stoker.core.errors import BadSpec, NotFound, Unimplemented, Violation
from stoker.store.files import cloud_errors, write_errors
from stoker.store.names import part_name
from stoker.store.root import Root

from .bucket import Listing
from .hashes import BLOCK_BYTES, Hashes
from .listing import Wanted, page
from .object import Asked, Conditions, Object, Said, Stamp
from .parts import CloudPart, LocalPart, Part


class CloudBucket:
    """Implements Bucket on an fsspec file system. Conditions are checked before a write, not in one step with it."""

    def __init__(self, name: str, cloud: Callable[[], Any]) -> None:
        self.name = name
        self._cloud = cloud

    def changed_ns(self) -> int:
        """Not known. Raises NotFound if there is no such bucket."""
        with cloud_errors(self._uri("")):
            self._cloud().info(f"gs://{self.name}")
        return 0

    def stat(self, name: str, *, hash_seconds: float = 0.0) -> Object:
        """An object. Raises NotFound."""
        with cloud_errors(self._uri(name)):
            info = self._cloud().info(self._uri(name))
        if info.get("type") != "file":
            raise NotFound(f"no object {self._uri(name)}")
        return self._object(name, info)

    def find(self, name: str) -> Object | None:
        """An object, or None."""
        try:
            return self.stat(name)
        except NotFound:
            return None

    @contextmanager
    def read(self, name: str, *, hash_seconds: float = 0.0) -> Iterator[tuple[Object, IO[bytes]]]:
        """Open an object. Raises NotFound."""
        found = self.stat(name)
        with cloud_errors(self._uri(name)), self._cloud().open(self._uri(name), "rb") as file:
            yield found, file

    def list(self, wanted: Wanted, *, hash_seconds: float = 0.0) -> Listing:
        """A page of objects and common prefixes, out of all that is below the prefix."""
        with cloud_errors(self._uri(wanted.prefix)):
            top = self._uri(wanted.prefix.rpartition("/")[0])
            try:
                infos = self._cloud().find(top.rstrip("/"), detail=True)
            except FileNotFoundError:
                infos = {}
        found = {
            str(path).lstrip("/").removeprefix(f"{self.name}/"): info
            for path, info in infos.items()
            if info.get("type") == "file"
        }
        names = page(filter(wanted.has, sorted(found)), wanted, frozenset(found))
        return Listing([self._object(name, found[name]) for name in names.names], names.prefixes, names.next)

    @contextmanager
    def write(self, name: str) -> Iterator[Part]:
        """A place for the bytes of an object: they are sent on as they come."""
        self._check_name(name)
        with cloud_errors(self._uri(name)):
            part = CloudPart(self._cloud().open(self._uri(name), "wb", autocommit=False), self._uri(name))
        try:
            yield part
        finally:
            part.drop()

    def begin(self, name: str, spool: Path) -> LocalPart:
        """A place that stays: a file in `spool`, to be sent when it is whole."""
        self._check_name(name)
        return LocalPart(Root(spool), part_name("cloud"), self._uri(name))

    def resume(self, part: str, name: str, spool: Path) -> LocalPart:
        """The place of an upload that was begun."""
        return LocalPart(Root(spool), part, self._uri(name))

    def commit(self, part: Part, asked: Asked) -> Object:
        """Make the object of what has come. Raises BadSpec or PreconditionFailed: then nothing has changed."""
        asked.hashes.check(part.hashes)
        asked.conditions.check(self.find(asked.name))
        if isinstance(part, LocalPart):
            with self.write(asked.name) as sent, write_errors(self._uri(asked.name)), part.open() as file:
                while block := file.read(BLOCK_BYTES):
                    sent.write(block)
                part.hashes.check(sent.hashes)
                assert isinstance(sent, CloudPart)
                sent.finish()
            part.drop()
        else:
            assert isinstance(part, CloudPart)
            part.finish()
        return self.stat(asked.name)

    def say(self, name: str, change: Callable[[Said], Said], conditions: Conditions) -> Object:
        """Not served: fsspec has no one way to do it."""
        raise Unimplemented("the metadata of objects in a cloud cannot be changed through Stoker")

    def delete(self, name: str, conditions: Conditions) -> None:
        """Remove an object. Raises NotFound or PreconditionFailed."""
        conditions.check(self.stat(name))
        with cloud_errors(self._uri(name)):
            self._cloud().rm_file(self._uri(name))

    def move(self, name: str, to: str, *, source: Conditions, target: Conditions) -> Object:
        """Give an object another name. Raises NotFound or PreconditionFailed."""
        source.check(self.stat(name))
        target.check(self.find(to))
        with cloud_errors(self._uri(name)):
            self._cloud().mv(self._uri(name), self._uri(to))
        return self.stat(to)

    def _uri(self, name: str) -> str:
        return f"gs://{self.name}/{name}"

    def _check_name(self, name: str) -> None:
        if not name or name.endswith("/"):
            raise BadSpec([Violation("name", f"{name[-80:]!r} is not the name of a file below its bucket")])

    def _object(self, name: str, info: Mapping[str, Any]) -> Object:
        """What gcsfs says of an object, in Cloud Storage's words; another fsspec file system says less."""
        changed = info.get("mtime") or info.get("updated") or info.get("created")
        changed_ns = int(changed.timestamp() * 1e9) if isinstance(changed, datetime) else 0
        return Object(
            bucket=self.name,
            name=name,
            stamp=Stamp(int(info["size"]), changed_ns),
            generation=int(info.get("generation") or changed_ns // 1000 or 1),
            metageneration=int(info.get("metageneration") or 1),
            said=Said(content_type=info.get("contentType") or "", metadata=info.get("metadata") or {}),
            hashes=Hashes(crc32c=info.get("crc32c") or "", md5=info.get("md5Hash") or ""),
        )
