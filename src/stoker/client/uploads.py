"""What a job needs of the user's disk, packed and sent to the server: a folder, a trainer package, local archives.

Files are named by their content, so what is there already is not sent again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from stoker.core.errors import BadSpec, Violation
from stoker.core.ids import BUCKET_NAME

from .packaging import Tree, pack_folder, pack_trainer, shown_files, shown_size, without
from .program_check import check_module
from .requirements_wheel import make_wheel, requirements_of

SOURCE_BUCKET = "gs://stoker-source"
DEFAULT_STAGING = "gs://stoker-staging"
_LARGE_BYTES = 8 << 20
_LARGE_TREE_BYTES = 10 << 20


class Progress:
    """Hears of what takes its time. This one keeps it to itself; the command line shows it."""

    def begins(self, what: str) -> None:
        """A step that takes its time."""

    def done(self, what: str) -> None:
        """A step that is done."""

    def warns(self, what: str) -> None:
        """Something to know."""

    def meter(self, size_bytes: int) -> Callable[[int], None]:
        """What is told how many bytes of a large file were sent so far."""
        return lambda _: None


class Place(Protocol):
    """Where files are sent to: a Client."""

    def exists(self, uri: str) -> bool: ...

    def upload(self, path: Path, uri: str, progress: Callable[[int], None]) -> None: ...


class Nowhere:
    """Implements Place for a dry run: whatever would be sent counts as there already."""

    def exists(self, uri: str) -> bool:
        """Yes: so it is not sent."""
        return True

    def upload(self, path: Path, uri: str, progress: Callable[[int], None]) -> None:
        """Send nothing."""


def upload(client: Place, path: Path, uri: str, progress: Progress) -> str:
    """Upload a file unless it is there already; its address holds the digest of its content. Returns the address."""
    if client.exists(uri):
        return uri
    size = path.stat().st_size
    is_large = size > _LARGE_BYTES
    if is_large:
        progress.begins(f"uploading {path.name}, {shown_size(size)}")
    client.upload(path, uri, progress.meter(size) if is_large else lambda _: None)
    progress.done(f"uploaded {shown_size(size)} to {uri}")
    return uri


def upload_folder(client: Place, folder: Path, progress: Progress) -> str:
    """Pack and upload a folder, without its version control, virtual environments and caches. Returns its address.

    Raises BadSpec if it is too large, or cannot be read.
    """

    def announce(tree: Tree) -> None:
        """What will take its time, and because of what."""
        if tree.total_bytes > _LARGE_TREE_BYTES:
            progress.begins(f"packing {shown_files(len(tree.sizes))}, {shown_size(tree.total_bytes)}")
            for name, size in tree.largest():
                if size > _LARGE_TREE_BYTES:
                    progress.warns(f"{name} has {shown_size(size)}; data is better read from its own place")

    with tempfile.TemporaryDirectory(prefix="stoker-") as temporary:
        packed = pack_folder(folder, Path(temporary), announce)
        what = f"{shown_files(packed.files)}, {shown_size(packed.size_bytes)} packed{without(packed.skipped)}"
        progress.begins(what)
        return upload(client, packed.path, f"{SOURCE_BUCKET}/{packed.sha256}/source.zip", progress)


def upload_packages(
    client: Place,
    body: dict[str, Any],
    *,
    packages: Sequence[str] = (),
    package_path: Path | None = None,
    requirements: Sequence[Path] = (),
    with_packages: Sequence[str] = (),
    staging_bucket: str = "",
    progress: Progress,
    check: Callable[[Sequence[str]], object] = lambda uploads: None,
) -> None:
    """Upload the local archives of `packages` and what is packed of `package_path`, and put all addresses into the Job.

    In gcloud's order, the trainer last: what it needs is then installed before it. `requirements` and `with_packages` become one
    more archive (requirements_wheel.py). `check` is asked with the addresses of what would be uploaded, before anything is, and
    raises where the job would be refused. Raises BadSpec.
    """
    uris, local = [part for part in packages if "://" in part], [Path(part) for part in packages if "://" not in part]
    _check_packages(local)
    training = body["trainingInput"]
    lines, whose = requirements_of(package_path, requirements, with_packages)
    if not isinstance(training, dict) or not (packages or package_path or lines):
        return  # nothing to add; what is wrong with the job, the server says
    if not (packages or package_path):
        named = training.get("packageUris") or []  # as the job file names them
        if not isinstance(named, list):
            return  # what is wrong with it, the server says
        uris = list(named)
    module = training.get("pythonModule")
    if package_path and not packages and isinstance(module, str) and os.path.isfile(package_path / "__init__.py"):
        check_module(module, package_path)  # it may be in another of the packages
    base = _staging(training, staging_bucket, body["jobId"])
    with tempfile.TemporaryDirectory(prefix="stoker-") as folder:
        if whose:
            count = f" ({len(lines)} requirement{'s' if len(lines) > 1 else ''})" if lines else ""
            progress.begins(f"environment: {whose}{count}")
        if lines:
            local.insert(0, make_wheel(lines, Path(folder)))
        digests = [_digest(local)] if local else []
        if package_path:
            progress.begins(f"packing {package_path}")
            packed = pack_trainer(package_path, Path(folder))
            size = shown_size(packed.size_bytes)
            progress.done(f"packed {shown_files(packed.files)}, {size}{without(packed.skipped)}")
            local.append(packed.path)
            digests.append(packed.sha256)
        place = f"{base}/{_one(digests)}"
        uploads = {f"{place}/{path.name}": path for path in local}
        training["packageUris"] = [*uris, *uploads]
        check(tuple(uploads))
        for uri, path in uploads.items():
            upload(client, path, uri, progress)


def _check_packages(local: Sequence[Path]) -> None:
    found = [Violation("--packages", f"{path} is not a file") for path in local if not os.path.isfile(path)]
    names = [path.name for path in local]
    if len(set(names)) != len(names):
        found.append(Violation("--packages", "two files of the same name; a replica fetches both to one folder"))
    if found:
        raise BadSpec(found)


def _staging(training: Mapping[str, Any], staging_bucket: str, name: str) -> str:
    """Where packages go: the staging bucket, else the job dir, else a bucket of our own (contract 4.2)."""
    if staging_bucket:
        bucket = staging_bucket.removeprefix("gs://").rstrip("/")
        if not BUCKET_NAME.fullmatch(bucket):
            rule = "is not a bucket: 3 to 63 of a-z, 0-9, '-', '_', '.'"
            raise BadSpec([Violation("--staging-bucket", f"{bucket!r} {rule}")])
        return f"gs://{bucket}/{name}"
    scheme, _, rest = str(training.get("jobDir") or "").rstrip("/").partition("://")
    bucket, *below = rest.split("/")
    if scheme in ("gs", "s3") and BUCKET_NAME.fullmatch(bucket) and ".." not in below:
        return f"{scheme}://{rest}/packages"
    return f"{DEFAULT_STAGING}/{name}"  # also for a job dir that is none: the server says so


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _one(digests: Sequence[str]) -> str:
    """One digest for all: a change of any of them makes another folder."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
