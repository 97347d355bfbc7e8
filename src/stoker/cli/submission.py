"""From flags and files to a submitted job: pack, upload, submit, and then follow it or say how to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.client.job_body import check_name, merge, name_of_rehearsal
from stoker.client.job_file import JobFile, located, read_job_file
from stoker.core.errors import BadSpec, NotReady

from . import session, show
from .follow import follow, where

if TYPE_CHECKING:
    from stoker.client.uploads import Progress


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
    from stoker.client.uploads import upload_packages

    body, file = read_submission(flags, name, user_args)
    _name(body, rehearse=rehearse)
    client, project = session.client(), session.the_project(project)
    try:
        upload_packages(
            client,
            body,
            packages=[part for part in (flags.get("packages") or "").split(",") if part],
            package_path=flags.get("package_path"),
            requirements=flags.get("requirements") or (),
            with_packages=flags.get("with_packages") or (),
            staging_bucket=flags.get("staging_bucket") or "",
            progress=shown_progress(),
            check=lambda uploads: client.dry_run(project, body, uploads=uploads, rehearse=rehearse, outlook=False),
        )
        job = client.submit(project, body, rehearse=rehearse)
    except (BadSpec, NotReady) as error:
        raise located(error, file) from None
    details = client.details(project, job["jobId"])
    show.done(f"{job['jobId']} is queued in project {project}: {machines_line(details)}")
    for line in (*map("  {}".format, details["notes"]), *where(details)):
        show.note(line)
    if stream_logs:
        return job, follow(client, project, job["jobId"])
    show.note(f"  Next:  stoker jobs stream-logs {job['jobId']}   ·   stoker why {job['jobId']}")
    return job, 0


def _name(body: dict[str, Any], *, rehearse: bool) -> None:
    """Check the Job's name; a rehearsal that has none gets one."""
    if rehearse and not body.get("jobId"):
        body["jobId"] = name_of_rehearsal()
    check_name(body.get("jobId"))


def dry_run(
    flags: Mapping[str, Any],
    name: str | None,
    user_args: Sequence[str] | None,
    *,
    project: str | None,
    as_json: bool,
    rehearse: bool = False,
) -> int:
    """Pack, send nothing, and show what would come of the job. Returns the exit code to end with."""
    from stoker.client.uploads import Nowhere, upload_packages

    body, file = read_submission(flags, name, user_args)
    _name(body, rehearse=rehearse)
    client, project = session.client(), session.the_project(project)
    named = [part for part in (flags.get("packages") or "").split(",") if part]
    try:
        upload_packages(
            Nowhere(),
            body,
            packages=named,
            package_path=flags.get("package_path"),
            requirements=flags.get("requirements") or (),
            with_packages=flags.get("with_packages") or (),
            staging_bucket=flags.get("staging_bucket") or "",
            progress=shown_progress(),
        )
        training = body.get("trainingInput")
        uris = training.get("packageUris") if isinstance(training, dict) else None
        are_made = flags.get("package_path") or flags.get("requirements") or flags.get("with_packages")
        are_local = bool(are_made or any("://" not in part for part in named))
        uploads = [uri for uri in uris if uri not in named] if are_local and isinstance(uris, list) else []
        found = client.dry_run(project, body, uploads=uploads, rehearse=rehearse)
    except (BadSpec, NotReady) as error:
        raise located(error, file) from None
    return show_plan(found, as_json=as_json)


def show_plan(found: Mapping[str, Any], *, as_json: bool) -> int:
    """Show what would come of a job. Returns the exit code to end with."""
    from .outlook import planned

    if as_json:
        show.data(found)
        return 0
    for line in planned(found):
        show.say(show.safe(line))
    return 0


def machines_line(details: Mapping[str, Any]) -> str:
    """`chief n1-highcpu-16 + 4 NVIDIA_TESLA_T4 · 3 ps n1-highmem-8`."""
    parts = []
    for machine in details["machines"]:
        count = f"{machine['count']} " if machine["role"] != "chief" else ""
        size = machine["machine_type"] or f"{machine['vcpus']:g} vCPU"
        gpus = f" + {machine['accelerators']:g} {machine['accelerator']}" if machine["accelerators"] else ""
        parts.append(f"{count}{machine['role']} {size}{gpus}")
    return " · ".join(parts)


def shown_progress() -> Progress:
    """What takes its time, on the terminal."""
    from stoker.client.uploads import Progress

    class Shown(Progress):
        def begins(self, what: str) -> None:
            show.progress(what)

        def done(self, what: str) -> None:
            show.done(what)

        def warns(self, what: str) -> None:
            show.warn(what)

        def meter(self, size_bytes: int) -> Callable[[int], None]:
            return _Meter(size_bytes).show

    return Shown()


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
