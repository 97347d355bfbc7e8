"""The files of jobs: packages, job directories, buckets. Plain paths, `gs://`, `s3://`, through fsspec.

A site maps buckets to folders. Where there are no cloud credentials, every bucket that is not mapped is kept under Stoker's
own state folder, so that commands written for a cloud run offline. A bucket that is a folder reaches programs as a plain path.
"""

from __future__ import annotations

import copy
import errno
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from stoker.core.errors import BadSpec, NotFound, StokerError, Unavailable, Violation
from stoker.core.ids import BUCKET_NAME
from stoker.runtime.umask import make_open_file, make_open_folder

_URI = re.compile(r"(gs|s3)://([^/]+)(?:/(.*))?", re.DOTALL)
FAR = re.compile(r"(abfss?|adl|az|hdfs|lakefs|oci|oss|sftp|smb|webhdfs)://[^/\s][^\s]*")
"""Where fsspec's libraries lead a program, and the server never goes: with whose rights would it?"""
_SENT = re.compile(r"(?:.*/)?[0-9a-f]{64}/[^/]+")
SENT_BUCKETS = ("stoker-source", "stoker-staging")
"""Where the client puts what a job needs, below the digest of its content: who does not know the content cannot name it."""

_PART = re.compile(r"\..*\.[0-9a-f]{8}\.part", re.DOTALL)
LONGEST_NAME_BYTES = 1024 + 80  # of an object, and of a scheme and a bucket before it
_LONGEST_PART_OF_NAME_BYTES = 255
_LONGEST_PART_BYTES = 200  # of a file's own name in that of its part; a file system takes 255 in all
_FIXES = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some disk space, or ask for a larger quota",
    errno.EACCES: "let the server's user write there",
    errno.EPERM: "let the server's user write there",
    errno.EROFS: "mount it for writing",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URI leads: a path on this machine, or a file of a cloud."""

    uri: str
    path: Path | None  # None: only fsspec reaches it


def resolve(root: Path, name: str) -> Path:
    """The path of `name` below `root`. The one function that turns a user's text into a path; nothing leads out of root.

    Raises BadSpec for `..`, absolute names, backslashes, NUL, double encodings, drive letters and links that lead outside.
    """
    if not is_harmless(name):
        raise BadSpec([Violation("name", f"{name!r} is not the name of a file below its bucket")])
    parts = name.split("/")
    path = root.joinpath(*[part for part in parts if part])
    real_root = os.path.realpath(root)
    real = os.path.realpath(path)
    if real != real_root and not real.startswith(real_root + os.sep):
        raise BadSpec([Violation("name", f"{name!r} leads out of its bucket through a link")])
    return path


def is_harmless(name: str) -> bool:
    """Whether a name can only lead downwards. Its decoded forms too: somebody else may decode it once more."""
    return all(map(_leads_down, (name, unquote(name), unquote(unquote(name)))))


def _leads_down(name: str) -> bool:
    if "\x00" in name or "\\" in name or name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return False
    return not any(part in ("..", ".") for part in name.split("/"))


def _is_too_long(uri: str) -> bool:
    """Whether no disk could hold a file of this name. An object of a bucket has at most 1024 bytes anyway (Cloud Storage)."""
    name = uri.encode(errors="replace")
    return len(name) > LONGEST_NAME_BYTES or any(len(part) > _LONGEST_PART_OF_NAME_BYTES for part in name.split(b"/"))


def part_path(path: Path) -> Path:
    """A hidden place beside a file, for what is to become it: on the same disk, so that a rename is all that is left to do."""
    name = os.fsencode(path.name)[:_LONGEST_PART_BYTES].decode(errors="ignore")
    return path.with_name(f".{name}.{secrets.token_hex(4)}.part")


def is_part(name: str) -> bool:
    """Whether a file of this name is one that is still being written, and so nobody's to see."""
    return _PART.fullmatch(name) is not None


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder has; what is in them is synced by who writes them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def write_errors(uri: str) -> Iterator[None]:
    """Turn what a file system says to a write into our own errors."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
        problem = f"{uri} is a folder, or below a file; choose another name"
        raise BadSpec([Violation("uri", problem)]) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            problem = f"{uri[:80]}… has a part of more bytes than a folder of this machine can hold (255)"
            raise BadSpec([Violation("uri", problem)]) from error
        fix = _FIXES.get(error.errno or 0, "see that the disk is well")
        raise Unavailable(f"{uri} cannot be written: {error.strerror or error}", fix=fix) from error


class Files:
    """Every file that a job names, by URI."""

    def __init__(
        self,
        root: Path,
        *,
        buckets: Mapping[str, str],
        keep_buckets_here: bool,
        cloud: Callable[[str], Any] | None = None,
    ) -> None:
        """`root`: where unmapped buckets are kept, if `keep_buckets_here`. `buckets`: name → folder. `cloud`: see `cloud`."""
        self._root = root
        self.mapped = dict(buckets)
        self._keep_here = keep_buckets_here
        self.cloud = cloud or fsspec_of
        """The fsspec file system of a scheme, `gs` or `s3`."""
        self._only: Collection[str] | None = None  # the buckets that may be named

    def limited(self, buckets: Collection[str]) -> Files:
        """The same files for somebody who may name these buckets only, and by its digest what was sent with a job."""
        view = copy.copy(self)
        view._only = frozenset(buckets)
        return view

    def buckets(self) -> dict[str, Path]:
        """The buckets of Google Cloud Storage that are folders here and now: name → folder."""
        kept = self._root / "gs"
        found = {path.name: path for path in kept.iterdir() if path.is_dir()} if kept.is_dir() else {}
        mapped = {name: Path(folder).expanduser() for name, folder in self.mapped.items()}
        found = (found if self._keep_here else {}) | mapped
        seen = found if self._only is None else found.keys() & self._only
        return {name: found[name] for name in sorted(seen) if BUCKET_NAME.fullmatch(name)}

    def place(self, uri: str, *, is_programs: bool = False) -> Place:
        """Where a URI leads. Raises BadSpec for what is neither a URI that we know nor an absolute path, or is too long.

        Where only some buckets may be named, whatever is outside of them raises NotFound. `is_programs`: it is only handed to a
        program, and may be anywhere that a library of its own knows.
        """
        if _is_too_long(uri):
            raise BadSpec(
                [Violation("uri", f"{uri[:80]!r}… is too long: a name has 1024 bytes, and 255 between slashes")]
            )
        match = _URI.fullmatch(uri)
        if is_programs and FAR.fullmatch(uri):
            return Place(uri, None)
        if match is None:
            if uri.startswith("/") and "\x00" not in uri and ".." not in uri.split("/"):
                if self._only is not None:
                    raise NotFound(f"this token opens no path of the server such as {uri[:80]!r}")
                return Place(uri, Path(uri))
            raise BadSpec([Violation("uri", f"{uri!r} is neither gs://BUCKET/…, s3://BUCKET/… nor an absolute path")])
        scheme, bucket, name = match[1], match[2], match[3] or ""
        if not BUCKET_NAME.fullmatch(bucket):
            raise BadSpec(
                [
                    Violation(
                        "uri", f"{bucket!r} is not a bucket name (3 to 63 lower-case letters, digits, '-', '_', '.')"
                    )
                ]
            )
        if self._only is not None and not self._may_name(bucket, name):
            raise NotFound(f"this token opens no {scheme}://{bucket}/")
        if bucket in self.mapped:
            return Place(uri, resolve(Path(self.mapped[bucket]).expanduser(), name))
        if self._keep_here:
            return Place(uri, resolve(self._root / scheme / bucket, name))
        return Place(uri, None)

    def _may_name(self, bucket: str, name: str) -> bool:
        assert self._only is not None
        return bucket in self._only or (bucket in SENT_BUCKETS and _SENT.fullmatch(name) is not None)

    def program_path(self, uri: str) -> str:
        """What a program is told: the plain path where there is one, else the URI."""
        path = self.place(uri, is_programs=True).path
        return str(path) if path is not None else uri

    def exists(self, uri: str) -> bool:
        """Whether there is such a file. Raises Unavailable if the cloud cannot be asked."""
        place = self.place(uri)
        if place.path is not None:
            return place.path.is_file()
        with cloud_errors(uri):
            return bool(self._cloud(uri).isfile(uri))

    def stamp(self, uri: str) -> str:
        """A text that changes with the file's content. Raises NotFound."""
        place = self.place(uri)
        if place.path is not None:
            try:
                stat = place.path.stat()
            except OSError:
                raise NotFound(f"no file {uri}") from None
            return f"{uri} {stat.st_size} {stat.st_mtime_ns}"
        with cloud_errors(uri):
            return f"{uri} {self._cloud(uri).checksum(uri)}"

    @contextmanager
    def read(self, uri: str) -> Iterator[IO[bytes]]:
        """Open a file for reading. Raises NotFound."""
        place = self.place(uri)
        if place.path is not None:
            try:
                file = open(place.path, "rb")
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                raise NotFound(f"no file {uri}") from None
            with file:
                yield file
            return
        with cloud_errors(uri), self._cloud(uri).open(uri, "rb") as cloud_file:
            yield cloud_file

    @contextmanager
    def write(self, uri: str) -> Iterator[IO[bytes]]:
        """Write a file: all of it appears at once when the block ends well, nothing if it does not."""
        place = self.place(uri)
        if place.path is None:
            with cloud_errors(uri), whole(self._cloud(uri), uri) as cloud_file:
                yield cloud_file
            return
        part = part_path(place.path)
        try:
            with write_errors(uri):
                make_open_folder(place.path.parent)
                make_open_file(part)
                with open(part, "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, place.path)
                sync_folder(place.path.parent)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _cloud(self, uri: str) -> Any:
        return self.cloud(uri.split("://", 1)[0])


def has_cloud_credentials(environment: Mapping[str, str]) -> bool:
    """Whether this user is logged in to a cloud, as far as that can be told without asking it."""
    adc = Path(environment.get("HOME", "~")).expanduser() / ".config/gcloud/application_default_credentials.json"
    return bool(environment.get("GOOGLE_APPLICATION_CREDENTIALS")) or adc.exists()


def fsspec_of(scheme: str) -> Any:
    """The fsspec file system of a scheme. Raises ImportError where its package is missing."""
    import fsspec

    return fsspec.filesystem(scheme)


@contextmanager
def whole(cloud: Any, uri: str) -> Iterator[Any]:
    """A file of a cloud to write to, which is there when the block has ended well, and not at all if it has not."""
    file = cloud.open(uri, "wb", autocommit=False)
    try:
        yield file
        file.close()
        file.commit()
    except BaseException:
        file.discard()
        raise


@contextmanager
def cloud_errors(uri: str) -> Iterator[None]:
    """Turn whatever a cloud library raises into our own errors."""
    try:
        yield
    except StokerError:
        raise  # one of ours, raised by who reads or writes
    except FileNotFoundError:
        raise NotFound(f"no file {uri}") from None
    except ImportError as error:
        package = {"gs": "gcsfs", "s3": "s3fs"}[uri.split("://", 1)[0]]
        raise Unavailable(
            f"{uri} needs the package {package}", fix=f"pip install {package}, or map the bucket"
        ) from error
    except Exception as error:
        raise Unavailable(f"{uri} cannot be reached: {error}") from error
