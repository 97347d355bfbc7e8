"""From flags and files to a submitted job: pack, upload, submit, and then follow it or say how to."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.client.job_file import JobFile, read_job_file
from stoker.core.errors import BadSpec, NotReady, StokerError, Violation

from . import session, show
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
    from .follow import follow

    body, file = read_submission(flags, name, user_args)
    if not body.get("jobId"):
        body["jobId"] = f"rehearsal_{time.strftime('%Y%m%d_%H%M%S')}" if rehearse else ""
    if not body["jobId"]:
        raise BadSpec([Violation("JOB", "a job needs a name: letters, digits and underscores")])
    client, project = session.client(), session.the_project(project)
    try:
        upload_packages(client, body, flags)
        job = client.submit(project, body, rehearse=rehearse)
    except (BadSpec, NotReady) as error:
        raise located(error, file) from None
    show.done(f"{job['jobId']} is queued in project {project}: {machines_line(client.details(project, job['jobId']))}")
    if stream_logs:
        return job, follow(client, project, job["jobId"])
    show.note(
        f"  Next:  stoker jobs stream-logs {job['jobId']}   ·   stoker jobs describe {job['jobId']}   ·   stoker nodes"
    )
    return job, 0


def upload_packages(client: Client, body: dict[str, Any], flags: Mapping[str, Any]) -> None:
    """Pack --package-path, upload it and the local --packages, and put their addresses into the job."""
    from stoker.client.packaging import pack_trainer, shown_size

    given = [part for part in (flags.get("packages") or "").split(",") if part]
    local = [Path(part) for part in given if "://" not in part]
    training = body["trainingInput"]
    names = [path.name for path in local]
    if len(set(names)) != len(names):
        raise BadSpec([Violation("--packages", "two files of the same name; a replica fetches both to one folder")])
    for path in local:
        if not path.is_file():
            raise BadSpec([Violation("--packages", f"{path} is not a file")])
    uris = [part for part in given if "://" in part]
    with tempfile.TemporaryDirectory(prefix="stoker-") as folder:
        digest = ""
        if flags.get("package_path"):
            show.progress(f"packing {flags['package_path']}")
            packed = pack_trainer(flags["package_path"], Path(folder))
            show.done(f"packed {packed.files} files, {shown_size(packed.size_bytes)}")
            local.insert(0, packed.path)
            digest = packed.sha256
        if not local:
            if uris:
                training["packageUris"] = uris
            return
        base = _staging(training, flags, body.get("jobId", ""), digest or _digest(local))
        training["packageUris"] = [*(upload(client, path, f"{base}/{path.name}") for path in local), *uris]


def upload(client: Client, path: Path, uri: str) -> str:
    """Upload a file unless it is there already; its name holds the digest of its content."""
    from stoker.client.packaging import shown_size

    if client.exists(uri):
        return uri
    size = path.stat().st_size
    if size > _LARGE_BYTES:
        show.progress(f"uploading {path.name}, {shown_size(size)}")
    client.upload(path, uri)
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


def located(error: StokerError, file: JobFile | None) -> StokerError:
    """The same refusal, each mistake with the line of the file that it comes from."""
    if file is None or not isinstance(error, BadSpec | NotReady):
        return error
    violations = []
    for violation in error.violations:
        where = file.where(violation.field)
        violations.append(Violation(f"{where} {violation.field}".strip(), violation.description))
    return type(error)(violations, fix=error.fix)


def job_argument(required: bool) -> Any:
    """The positional JOB."""
    return click.argument("job", required=required)


def _staging(training: Mapping[str, Any], flags: Mapping[str, Any], name: str, digest: str) -> str:
    """Where packages go: the staging bucket, else the job dir, else a bucket of our own (contract 4.2)."""
    if flags.get("staging_bucket"):
        bucket = str(flags["staging_bucket"]).rstrip("/")
        return f"{bucket if '://' in bucket else f'gs://{bucket}'}/{name}/{digest}"
    job_dir = str(training.get("jobDir") or "")
    if "://" in job_dir:
        return f"{job_dir.rstrip('/')}/packages/{digest}"
    return f"{DEFAULT_STAGING}/{name}/{digest}"


def _digest(paths: Sequence[Path]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
