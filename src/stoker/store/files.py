"""The files of jobs: packages, job directories, buckets. Plain paths, `gs://`, `s3://`, through fsspec.

A site maps buckets to folders. Where there are no cloud credentials, every bucket that is not mapped is kept under Stoker's
own state folder, so that commands written for a cloud run offline. A bucket that is a folder reaches programs as a plain path.
"""

from __future__ import annotations

import copy
import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stoker.core.errors import BadSpec, NotFound, StokerError, Unavailable, Violation
from stoker.core.ids import BUCKET_NAME
from stoker.runtime.no_links import real_path

from .names import is_harmless
from .root import Root

_URI = re.compile(r"(gs|s3)://([^/]+)(?:/(.*))?", re.DOTALL)
FAR = re.compile(r"(abfss?|adl|az|hdfs|lakefs|oci|oss|sftp|smb|webhdfs)://[^/\s][^\s]*")
"""Where fsspec's libraries lead a program, and the server never goes: with whose rights would it?"""
_SENT = re.compile(r"(?:.*/)?[0-9a-f]{64}/[^/]+")
SENT_BUCKETS = ("stoker-source", "stoker-staging")
"""Where the client puts what a job needs, below the digest of its content: who does not know the content cannot name it."""

_OF_KERNEL = ("/proc", "/sys", "/dev")
LONGEST_NAME_BYTES = 1024 + 80  # of an object, and of a scheme and a bucket before it
_LONGEST_PART_OF_NAME_BYTES = 255
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG, errno.ENODEV)
_FIXES = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some disk space, or ask for a larger quota",
    errno.EACCES: "let the server's user write there",
    errno.EPERM: "let the server's user write there",
    errno.EROFS: "mount it for writing",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URI leads: a name below a folder of this machine, or a file of a cloud."""

    uri: str
    root: Root | None = None  # None: only fsspec reaches it
    name: str = ""  # below the root

    @property
    def path(self) -> str:
        """The path on this machine, for programs and people; empty where there is none."""
        return self.root.shown(self.name) if self.root is not None else ""


def _is_too_long(uri: str) -> bool:
    """Whether no disk could hold a file of this name. An object of a bucket has at most 1024 bytes anyway (Cloud Storage)."""
    name = uri.encode(errors="replace")
    return len(name) > LONGEST_NAME_BYTES or any(len(part) > _LONGEST_PART_OF_NAME_BYTES for part in name.split(b"/"))


def _is_of_kernel(path: str) -> bool:
    """Whether a path is below what the kernel makes up, by its name or by links: there every process sees another one's files."""
    try:
        names = (os.path.normpath(path), os.path.realpath(path))
    except OSError:
        return True  # a link that cannot even be read: of a process, or of another user
    return any(f"/{name.lstrip('/')}/".startswith(tuple(f"{folder}/" for folder in _OF_KERNEL)) for name in names)


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder of the server's own has; what is in them is synced by who writes them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def read_errors(uri: str) -> Iterator[None]:
    """Turn what a file system says to a reader into our own errors: what is not a regular file is none."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise NotFound(f"no file {uri}") from None
        raise Unavailable(f"{uri} cannot be read: {error.strerror or error}") from error


@contextmanager
def write_errors(uri: str) -> Iterator[None]:
    """Turn what a file system says to a write into our own errors."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
        problem = f"{uri} is a folder, or below a file; choose another name"
        raise BadSpec([Violation("uri", problem)]) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            problem = f"{uri} leads through links that go in circles, or are being changed; choose another name"
            raise BadSpec([Violation("uri", problem)]) from error
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
        job_folders: Sequence[str] = (),
        user_of: Callable[[str], int | None] = lambda owner: None,
    ) -> None:
        """`root`: where unmapped buckets are kept, if `keep_buckets_here`. `buckets`: name → folder. `cloud`: see `cloud`.

        `job_folders`: below them everybody may name files by their paths. `user_of`: as whom an owner's programs run on this
        machine; None: as the server.
        """
        self._root = root
        self.mapped = dict(buckets)
        self._mapped = {name: Root(Path(folder).expanduser()) for name, folder in buckets.items()}
        self._keep_here = keep_buckets_here
        self.cloud = cloud or fsspec_of
        """The fsspec file system of a scheme, `gs` or `s3`."""
        self._job_folders = {folder: os.path.realpath(folder) for folder in job_folders}
        self._user_of = user_of
        self._owner = ""
        self._is_admins = True
        self._only: Collection[str] | None = None  # the buckets that may be named

    def of(self, owner: str) -> Files:
        """The same files, as an owner's programs find them: what those could not read by its path is not read for them."""
        view = copy.copy(self)
        view._owner = owner
        return view

    def limited(self, buckets: Collection[str] | None) -> Files:
        """The same for who is not an admin: plain paths below the job folders only, and, if not None, these buckets only.

        What was sent with a job may be named in any case, by its digest.
        """
        view = copy.copy(self)
        view._is_admins = False
        view._only = frozenset(buckets) if buckets is not None else None
        return view

    def buckets(self) -> dict[str, Path]:
        """The buckets of Google Cloud Storage that are folders here and now: name → folder."""
        kept = self._root / "gs"
        found = {path.name: path for path in kept.iterdir() if path.is_dir()} if kept.is_dir() else {}
        mapped = {name: root.path for name, root in self._mapped.items()}
        found = (found if self._keep_here else {}) | mapped
        seen = found if self._only is None else found.keys() & self._only
        return {name: found[name] for name in sorted(seen) if BUCKET_NAME.fullmatch(name)}

    def place(self, uri: str, *, is_programs: bool = False) -> Place:
        """Where a URI leads. Raises BadSpec for what is neither a URI that we know nor an absolute path, or is too long.

        Where only some buckets may be named, whatever is outside of them raises NotFound. `is_programs`: it is only handed to a
        program, and may be anywhere that a library of its own knows.
        """
        if _is_too_long(uri):
            raise _bad(f"{uri[:80]!r}… is too long: a name has 1024 bytes, and 255 between slashes")
        match = _URI.fullmatch(uri)
        if is_programs and FAR.fullmatch(uri):
            return Place(uri)
        if match is None:
            if uri.startswith("/") and "\x00" not in uri and ".." not in uri.split("/"):
                return self._plain(uri)
            raise _bad(f"{uri!r} is neither gs://BUCKET/…, s3://BUCKET/… nor an absolute path")
        scheme, bucket, name = match[1], match[2], match[3] or ""
        if not BUCKET_NAME.fullmatch(bucket):
            raise _bad(f"{bucket!r} is not a bucket name (3 to 63 lower-case letters, digits, '-', '_', '.')")
        if self._only is not None and not self._may_name(bucket, name):
            raise NotFound(f"this token opens no {scheme}://{bucket}/")
        if not is_harmless(name):
            raise BadSpec([Violation("name", f"{name!r} is not the name of a file below its bucket")])
        if bucket in self._mapped:
            return Place(uri, self._mapped[bucket], name)
        if self._keep_here:
            return Place(uri, Root(self._root / scheme / bucket), name)
        return Place(uri)

    def _plain(self, path: str) -> Place:
        """Where a plain path leads. Below a job folder it is opened as its owner's programs would; elsewhere it is an admin's."""
        for folder, real in self._job_folders.items():
            for above in (folder, real):
                if path == above or path.startswith(above.rstrip("/") + "/"):
                    root = Root(Path(real), user=self._user_of(self._owner) if self._owner else None)
                    return Place(path, root, path[len(above) :].strip("/"))
        if not self._is_admins:
            raise NotFound(f"this token opens no path of the server such as {path[:80]!r}", fix=self._allowed())
        if _is_of_kernel(path):
            raise _bad(
                f"{path[:80]!r} leads below {', '.join(_OF_KERNEL)}, where nothing is kept: choose another folder"
            )
        return Place(path, Root(Path("/")), path.strip("/"))

    def _allowed(self) -> str:
        below = f", or a path below {' or '.join(self._job_folders)}" if self._job_folders else ""
        return (
            f"name a file of a bucket: gs://BUCKET/…{below}; other paths are for admins, who may open a folder to all by:"
            " stoker config set job_folders FOLDER"
        )

    def _may_name(self, bucket: str, name: str) -> bool:
        assert self._only is not None
        return bucket in self._only or (bucket in SENT_BUCKETS and _SENT.fullmatch(name) is not None)

    def check(self, uri: str, *, is_programs: bool = False) -> None:
        """Raise BadSpec or NotFound for what leads nowhere, or, as things stand, out of its bucket through a link."""
        place = self.place(uri, is_programs=is_programs)
        if place.root is not None:
            place.root.check(place.name)

    def program_path(self, uri: str) -> str:
        """What a program is told: the plain path where there is one, else the URI."""
        return self.place(uri, is_programs=True).path or uri

    def exists(self, uri: str) -> bool:
        """Whether there is such a file, to be read. Raises Unavailable if the cloud cannot be asked."""
        place = self.place(uri)
        if place.root is not None:
            try:
                place.root.open(place.name).close()
            except OSError:
                return False
            return True
        with cloud_errors(uri):
            return bool(self._cloud(uri).isfile(uri))

    def stamp(self, uri: str) -> str:
        """A text that changes with the file's content. Raises NotFound."""
        place = self.place(uri)
        if place.root is not None:
            with read_errors(uri):
                stat = place.root.stat(place.name)
            return f"{uri} {stat.st_size} {stat.st_mtime_ns}"
        with cloud_errors(uri):
            return f"{uri} {self._cloud(uri).checksum(uri)}"

    @contextmanager
    def read(self, uri: str) -> Iterator[IO[bytes]]:
        """Open a file for reading. Raises NotFound."""
        place = self.place(uri)
        if place.root is not None:
            with read_errors(uri):
                file = place.root.open(place.name)
            with file:
                yield file
            return
        with cloud_errors(uri), self._cloud(uri).open(uri, "rb") as cloud_file:
            yield cloud_file

    @contextmanager
    def write(self, uri: str) -> Iterator[IO[bytes]]:
        """Write a file: all of it appears at once when the block ends well, nothing if it does not."""
        place = self.place(uri)
        if place.root is None:
            with cloud_errors(uri), whole(self._cloud(uri), uri) as cloud_file:
                yield cloud_file
            return
        place.root.check(place.name)  # a link that leads out would be replaced; it is refused, as for reading
        with write_errors(uri), place.root.replacing(place.name) as file:
            yield file

    @contextmanager
    def folder(self, uri: str, *, make: bool = False) -> Iterator[Root]:
        """A folder of this machine that a job names, held open, as a root of its own: nothing in it leads out of it.

        Links on the way to it are the admin's, or none are followed: who writes below a bucket could have put one there. Raises
        FileNotFoundError if it is not there, unless `make`.
        """
        place = self.place(uri)
        if place.root is None:
            raise _bad(f"{uri} is not a folder of this machine")
        name = place.name.strip("/")
        if place.root.path == Path("/"):
            name = real_path(f"/{name}").strip("/")
        with ExitStack() as stack:
            try:
                root = stack.enter_context(place.root.below(name, make=make))
            except FileNotFoundError:
                raise
            except NotADirectoryError:
                raise _bad(f"{uri} leads through a link or a file now; remove that") from None
            except OSError as error:
                raise Unavailable(f"{uri} cannot be opened: {error.strerror or error}") from error
            yield root

    def _cloud(self, uri: str) -> Any:
        return self.cloud(uri.split("://", 1)[0])


def _bad(problem: str) -> BadSpec:
    return BadSpec([Violation("uri", problem)])


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
