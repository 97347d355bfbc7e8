"""From flags and files to a submitted job: pack, upload, submit, and then follow it or say how to."""

from __future__ import annotations

import hashlib
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.client.job_file import JobFile, read_job_file
from stoker.core.errors import BadSpec, NotReady, StokerError, Violation
from stoker.core.ids import JOB_NAME

from . import session, show
from .follow import follow, where
from .job_flags import merge

if TYPE_CHECKING:
    from stoker.client.client import Client

DEFAULT_STAGING = "gs://stoker-staging"
_LARGE_BYTES = 8 << 20


def read_submission(
    flags: Mapping[str, Any], name: str | None, user_args: Sequence[str] | None
) -> tuple[dict[str, Any], JobFile | None]:
    """The Job that was asked for, with this site's region where none was named, and the file it came from."""
    file = read_job_file(flags["config_file"]) if flags.get("config_file") else None
    body = merge(file.body if file else {}, flags, name=name, user_args=user_args)
    training = body.get("trainingInput")
    if isinstance(training, dict):
        training.setdefault("region", session.config()["region"])
    return body, file


def submit(
    flags: Mapping[str, Any],
    name: str | None,
    user_args: Sequence[str] | None,
    *,
    project: str | None,
    stream_logs: bool,
    rehearse: bool = False,
) -> tuple[Any, int]:
    """Pack, upload and submit. Returns the job and the exit code to end with."""
    body, file = read_submission(flags, name, user_args)
    if rehearse and not body.get("jobId"):
        body["jobId"] = f"rehearsal_{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(2)}"
    _check_name(body.get("jobId"))
    client, project = session.client(), session.the_project(project)
    try:
        upload_packages(client, body, flags)
        job = client.submit(project, body, rehearse=rehearse)
    except (BadSpec, NotReady) as error:
        raise located(error, file) from None
    details = client.details(project, job["jobId"])
    show.done(f"{job['jobId']} is queued in project {project}: {machines_line(details)}")
    for line in where(details):
        show.note(line)
    if stream_logs:
        return job, follow(client, project, job["jobId"])
    show.note(f"  Next:  stoker jobs stream-logs {job['jobId']}   ·   stoker why {job['jobId']}")
    return job, 0


def upload_packages(client: Client, body: dict[str, Any], flags: Mapping[str, Any]) -> None:
    """Upload the local --packages and what is packed of --package-path, and put all addresses into the job.

    In gcloud's order, the trainer last: what it needs is then installed before it.
    """
    from stoker.client.packaging import pack_trainer, shown_files, shown_size

    given = [part for part in (flags.get("packages") or "").split(",") if part]
    uris, local = [part for part in given if "://" in part], [Path(part) for part in given if "://" not in part]
    _check_packages(local)
    training = body["trainingInput"]
    if not isinstance(training, dict) or not (given or flags.get("package_path")):
        return  # nothing to add; what is wrong with the job, the server says
    base = _staging(training, flags, body["jobId"])
    with tempfile.TemporaryDirectory(prefix="stoker-") as folder:
        digests = [_digest(local)] if local else []
        if flags.get("package_path"):
            show.progress(f"packing {flags['package_path']}")
            packed = pack_trainer(flags["package_path"], Path(folder))
            show.done(f"packed {shown_files(packed.files)}, {shown_size(packed.size_bytes)}{without(packed.skipped)}")
            local.append(packed.path)
            digests.append(packed.sha256)
        place = f"{base}/{_one(digests)}"
        training["packageUris"] = uris + [upload(client, path, f"{place}/{path.name}") for path in local]


def upload(client: Client, path: Path, uri: str) -> str:
    """Upload a file unless it is there already; its name holds the digest of its content."""
    from stoker.client.packaging import shown_size

    if client.exists(uri):
        return uri
    size = path.stat().st_size
    if size > _LARGE_BYTES:
        show.progress(f"uploading {path.name}, {shown_size(size)}")
    client.upload(path, uri, _Meter(size).show if size > _LARGE_BYTES else lambda _: None)
    show.done(f"uploaded {shown_size(size)} to {uri}")
    return uri


def machines_line(details: Mapping[str, Any]) -> str:
    """`chief n1-highcpu-16 + 4 NVIDIA_TESLA_T4 · 3 ps n1-highmem-8`."""
    parts = []
    for machine in details["machines"]:
        count = f"{machine['count']} " if machine["role"] != "chief" else ""
        size = machine["machine_type"] or f"{machine['vcpus']:g} vCPU"
        gpus = f" + {machine['accelerators']} {machine['accelerator']}" if machine["accelerators"] else ""
        parts.append(f"{count}{machine['role']} {size}{gpus}")
    return " · ".join(parts)


def without(skipped: Sequence[str]) -> str:
    """` (without .git, venv)`: what was left out, the caches that every folder has not named."""
    named = [name for name in skipped if not name.endswith("__pycache__")]
    more = f" and {len(named) - 4} more" if named[4:] else ""
    return f" (without {', '.join(named[:4])}{more})" if named else ""


def located(error: StokerError, file: JobFile | None) -> StokerError:
    """The same refusal, each mistake with the line of the file that it comes from."""
    if file is None or not isinstance(error, BadSpec | NotReady):
        return error
    found = sorted(((file.line(v), v) for v in error.violations), key=lambda pair: pair[0])
    violations = [Violation(f"{file.path}:{n} {v.field}" if n else v.field, v.description) for n, v in found]
    return type(error)(violations, fix=error.fix)


class _Meter:
    """How much of an upload is done, on a terminal."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._shown = -1

    def show(self, sent: int) -> None:
        """Rewrite the line, if it is another per cent."""
        percent = 100 * sent // max(1, self._size)
        if percent != self._shown and sys.stderr.isatty():
            self._shown = percent
            sys.stderr.write(f"\r  {percent:3d} %" if sent < self._size else "\r       \r")
            sys.stderr.flush()


def _check_name(name: object) -> None:
    """Before anything is packed and uploaded under that name."""
    rule = "letters, digits and underscores, first a letter, at most 128 characters"
    if not name:
        raise BadSpec([Violation("JOB", f"a job needs a name: {rule}")])
    if not isinstance(name, str) or not JOB_NAME.fullmatch(name):
        raise BadSpec([Violation("job.job_id", f"{str(name)[:80]!r} is not a job id: {rule}")])


def _check_packages(local: Sequence[Path]) -> None:
    found = [Violation("--packages", f"{path} is not a file") for path in local if not path.is_file()]
    names = [path.name for path in local]
    if len(set(names)) != len(names):
        found.append(Violation("--packages", "two files of the same name; a replica fetches both to one folder"))
    if found:
        raise BadSpec(found)


def _staging(training: Mapping[str, Any], flags: Mapping[str, Any], name: str) -> str:
    """Where packages go: the staging bucket, else the job dir, else a bucket of our own (contract 4.2)."""
    from stoker.store.files import BUCKET_NAME

    if flags.get("staging_bucket"):
        bucket = str(flags["staging_bucket"]).removeprefix("gs://").rstrip("/")
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
