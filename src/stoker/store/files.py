"""The files of jobs: packages, job directories, buckets. Plain paths, `gs://`, `s3://`, through fsspec.

A site maps buckets to folders. Where there are no cloud credentials, every bucket that is not mapped is kept under Stoker's
own state folder, so that commands written for a cloud run offline. A bucket that is a folder reaches programs as a plain path.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from stoker.core.errors import BadSpec, NotFound, Unavailable, Violation

_URI = re.compile(r"(gs|s3)://([^/]+)(?:/(.*))?", re.DOTALL)
BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
"""A lawful bucket name: 3 to 63 characters (contract 4.2)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URI leads: a path on this machine, or a file of a cloud."""

    uri: str
    path: Path | None  # None: only fsspec reaches it


def resolve(root: Path, name: str) -> Path:
    """The path of `name` below `root`. The one function that turns a user's text into a path; nothing leads out of root.

    Raises BadSpec for `..`, absolute names, backslashes, NUL, double encodings, drive letters and links that lead outside.
    """
    if not all(map(_is_harmless, (name, unquote(name), unquote(unquote(name))))):
        raise BadSpec([Violation("name", f"{name!r} is not the name of a file below its bucket")])
    parts = name.split("/")
    path = root.joinpath(*[part for part in parts if part])
    real_root = os.path.realpath(root)
    real = os.path.realpath(path)
    if real != real_root and not real.startswith(real_root + os.sep):
        raise BadSpec([Violation("name", f"{name!r} leads out of its bucket through a link")])
    return path


def _is_harmless(name: str) -> bool:
    """Whether a name can only lead downwards. Asked of its decoded forms too: somebody else may decode it once more."""
    if "\x00" in name or "\\" in name or name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return False
    return not any(part in ("..", ".") for part in name.split("/"))


class Files:
    """Every file that a job names, by URI."""

    def __init__(self, root: Path, *, buckets: Mapping[str, str], keep_buckets_here: bool) -> None:
        """`root`: where unmapped buckets are kept, if `keep_buckets_here`. `buckets`: name → folder."""
        self._root = root
        self._buckets = dict(buckets)
        self._keep_here = keep_buckets_here

    def place(self, uri: str) -> Place:
        """Where a URI leads. Raises BadSpec for what is neither a URI that we know nor an absolute path."""
        match = _URI.fullmatch(uri)
        if match is None:
            if uri.startswith("/") and "\x00" not in uri and ".." not in uri.split("/"):
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
        if bucket in self._buckets:
            return Place(uri, resolve(Path(self._buckets[bucket]).expanduser(), name))
        if self._keep_here:
            return Place(uri, resolve(self._root / scheme / bucket, name))
        return Place(uri, None)

    def program_path(self, uri: str) -> str:
        """What a program is told: the plain path where there is one, else the URI."""
        path = self.place(uri).path
        return str(path) if path is not None else uri

    def exists(self, uri: str) -> bool:
        """Whether there is such a file. Raises Unavailable if the cloud cannot be asked."""
        place = self.place(uri)
        if place.path is not None:
            return place.path.is_file()
        with _cloud_errors(uri):
            return bool(_cloud(uri).isfile(uri))

    def stamp(self, uri: str) -> str:
        """A text that changes with the file's content. Raises NotFound."""
        place = self.place(uri)
        if place.path is not None:
            try:
                stat = place.path.stat()
            except OSError:
                raise NotFound(f"no file {uri}") from None
            return f"{uri} {stat.st_size} {stat.st_mtime_ns}"
        with _cloud_errors(uri):
            return f"{uri} {_cloud(uri).checksum(uri)}"

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
        with _cloud_errors(uri), _cloud(uri).open(uri, "rb") as cloud_file:
            yield cloud_file

    @contextmanager
    def write(self, uri: str) -> Iterator[IO[bytes]]:
        """Write a file: all of it appears at once when the block ends well, nothing if it does not."""
        place = self.place(uri)
        if place.path is None:
            with _cloud_errors(uri), _cloud(uri).open(uri, "wb") as cloud_file:
                yield cloud_file
            return
        temporary = place.path.with_name(f".{place.path.name[:100]}.{secrets.token_hex(4)}.part")
        try:
            place.path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, place.path)
        except OSError as error:
            if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError):
                raise BadSpec([Violation("uri", f"{uri} is a folder, or below a file; choose another name")]) from error
            raise Unavailable(
                f"{uri} cannot be written: {error.strerror or error}", fix="free some disk space"
            ) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def has_cloud_credentials(environment: Mapping[str, str]) -> bool:
    """Whether this user is logged in to a cloud, as far as that can be told without asking it."""
    adc = Path(environment.get("HOME", "~")).expanduser() / ".config/gcloud/application_default_credentials.json"
    return bool(environment.get("GOOGLE_APPLICATION_CREDENTIALS")) or adc.exists()


def _cloud(uri: str) -> Any:
    import fsspec

    return fsspec.filesystem(uri.split("://", 1)[0])


@contextmanager
def _cloud_errors(uri: str) -> Iterator[None]:
    """Turn whatever a cloud library raises into our own errors."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"no file {uri}") from None
    except ImportError as error:
        package = {"gs": "gcsfs", "s3": "s3fs"}[uri.split("://", 1)[0]]
        raise Unavailable(
            f"{uri} needs the package {package}", fix=f"pip install {package}, or map the bucket"
        ) from error
    except Exception as error:
        raise Unavailable(f"{uri} cannot be reached: {error}") from error
