"""`stoker.submit`: a program as a job, whichever way it is written down."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Unpack

from stoker.core.errors import BadSpec, NotReady, Violation
from stoker.core.options import OPTIONS, Count, Switch, Time

from . import arguments as a
from .connection import settings, the_client
from .job_body import an_accelerator, check_name, merge, name_of_rehearsal
from .job_file import located, read_job_file
from .job_options import JobOptions
from .jobs import Job
from .plain_command import command_of, environment_of, name_of
from .uploads import Progress, upload_folder, upload_packages

_OF_ROLES = {
    "machine_type": a.a_text,
    "accelerator": an_accelerator,
    "image_uri": a.a_text,
    "count": a.a_count,
}
_OF_KINDS: Mapping[type, a.Reader[Any]] = {Switch: a.a_switch, Count: a.a_count, Time: a.an_amount}
_OF_ALL: Mapping[str, a.Reader[Any]] = {
    "args": a.words,
    "name": a.a_text,
    "job_dir": a.a_text,
    "labels": a.a_table,
    "project": a.a_text,
    "rehearse": a.a_switch,
    "requirements": a.a_path,
    "with_packages": a.words,
    **{option.name: _OF_KINDS.get(type(option.kind), a.a_text) for option in OPTIONS},
}
_OF_COMMAND: Mapping[str, a.Reader[Any]] = {
    "gpus": a.an_amount,
    "gpu_type": a.a_text,
    "workers": a.a_count,
    "cpus": a.above_zero,
    "memory_gb": a.an_amount,
    "env": a.a_table,
    "max_running_seconds": a.above_zero,
    "folder": a.a_path,
    "python": a.a_text,
}
_OF_TRAINING: Mapping[str, a.Reader[Any]] = {
    "module": a.a_text,
    "package_path": a.a_path,
    "packages": a.words,
    "staging_bucket": a.a_text,
    **dict.fromkeys(("scale_tier", "region", "runtime_version", "python_version"), a.a_text),
    **{f"{role}_{name}": read for role in ("master", "worker", "parameter_server") for name, read in _OF_ROLES.items()},
}
_READERS = {**_OF_ALL, **_OF_COMMAND, **_OF_TRAINING}
_JOB_FILES = (".yaml", ".yml", ".json")
_REHEARSE = ("stoker rehearse with the same arguments", "stoker.submit(…, rehearse=True)")


def submit(
    program: str | Path | Sequence[str] | Mapping[str, Any] | None = None,
    /,
    *,
    args: Iterable[object] | None = None,
    name: str = "",
    job_dir: str = "",
    labels: Mapping[str, str] | None = None,
    project: str = "",
    rehearse: bool = False,
    progress: Progress | None = None,
    gpus: float | None = None,
    gpu_type: str | None = None,
    workers: int | None = None,
    cpus: float | None = None,
    memory_gb: float | None = None,
    env: Mapping[str, str] | None = None,
    max_running_seconds: float | None = None,
    folder: str | Path | None = None,
    python: str | None = None,
    requirements: str | Path | None = None,
    with_packages: Sequence[str] | None = None,
    module: str | None = None,
    package_path: str | Path | None = None,
    packages: Sequence[str | Path] | None = None,
    staging_bucket: str | None = None,
    scale_tier: str | None = None,
    region: str | None = None,
    runtime_version: str | None = None,
    python_version: str | None = None,
    master_machine_type: str | None = None,
    master_accelerator: Mapping[str, Any] | None = None,
    master_image_uri: str | None = None,
    worker_machine_type: str | None = None,
    worker_accelerator: Mapping[str, Any] | None = None,
    worker_image_uri: str | None = None,
    worker_count: int | None = None,
    parameter_server_machine_type: str | None = None,
    parameter_server_accelerator: Mapping[str, Any] | None = None,
    parameter_server_image_uri: str | None = None,
    parameter_server_count: int | None = None,
    **options: Unpack[JobOptions],
) -> Job:
    """Submit a job, and return once it is queued: from then on it survives any crash of the server.

    A script or a command, which runs in a copy of a folder:

        stoker.submit("train.py", args=["--epochs", 3], gpus=1, workers=3)
        stoker.submit(["bash", "-c", "python prepare.py && python train.py"])

    A training job of AI Platform v1, as a config.yaml or a dict, and what is to be changed of it:

        stoker.submit("config.yaml", name="digits_1", package_path="trainer", module="trainer.task")
        stoker.submit({"jobId": "digits_1", "trainingInput": {…}})

    A trainer package, as `stoker jobs submit training` takes it:

        stoker.submit(package_path="trainer", module="trainer.task", scale_tier="BASIC_GPU", job_dir="gs://my-bucket/out")

    Of every kind:
        args: what the program gets on its command line: texts, numbers and paths, in a list.
        name: letters, digits, underscores; without one it gets one.
        job_dir: `gs://BUCKET/…`, where it keeps files: in $STOKER_JOB_DIR, and of a training job also as `--job-dir`.
        labels: such as {"team": "vision"}.
        project: without one, that of the settings.
        rehearse: run it on virtual nodes made for it; GPUs are simulated.
        progress: hears what takes its time; without one nothing is printed.
        queue, priority, preemptible, …, checkpoints: the options of any job, one by one in `stoker.JobOptions`.

    Of a command:
        gpus, gpu_type: GPUs of each replica, and which ("T4", "T4,V100"; any, without it). Below one it is a share of a GPU,
            which is counted and not enforced.
        workers: replicas beside the chief.
        cpus, memory_gb: vCPUs and memory in GB of each replica.
        env: variables for the program.
        max_running_seconds: it is cancelled after so long; seven days, without it.
        folder: what it runs in a copy of; the current one, without it. Version control, virtual environments and caches
            stay behind; it is sent only if it has changed.
        python: an interpreter's path, or a version ("3.12"); "stoker" for Stoker's own. requirements: a file of packages, and
            with_packages: more of them, for a training job, too. Without these, as `stoker run` does (docs/running.md).

    Of a training job:
        module: what to run, `trainer.task`. package_path: the folder of its package. packages: more archives, local ones or
            gs://. staging_bucket: where they go, if not below job_dir.
        scale_tier, region, runtime_version, python_version: as AI Platform has them.
        master_…, worker_…, parameter_server_…: machine_type, accelerator ({"type": "NVIDIA_TESLA_T4", "count": 4}),
            image_uri, count.

    What is None, or an empty text, is not asked for; 0 is a number like any other. numpy's numbers are taken too.

    Raises BadSpec with everything that is wrong with it, NotReady if no node here could ever hold it, AlreadyExists for a
    taken name, Unavailable if there is no server and none can be started.
    """
    given = {**locals(), **options}
    if misspelt := options.keys() - _READERS:
        raise TypeError(_misspelt(min(misspelt)))
    asked = a.arguments({name: given[name] for name in _READERS if _is_said(given.get(name))}, _READERS)
    what = None if program is None else a.argument("program", program, _program)
    submit_it = _command if _is_command(what, asked) else _training
    try:
        return submit_it(what, asked, progress or Progress())
    except NotReady as error:
        raise NotReady(error.violations, fix=error.fix.replace(*_REHEARSE)) from None


def _misspelt(name: str) -> str:
    """A message: there is no such option, and the nearest that there is."""
    near = get_close_matches(name, _READERS, 1)
    return f"stoker.submit has no option {name!r}" + (
        f"; did you mean {near[0]}?" if near else f"; there are {', '.join(_READERS)}"
    )


def _is_said(value: object) -> bool:
    """Whether an option was given: None and an empty text stand for none. Nothing is compared, for arrays answer as arrays."""
    return value is not None and not (isinstance(value, str) and not value)


def _program(value: Any) -> str | list[str] | Mapping[str, Any]:
    """A script or a file, a command in words, or a Job. Raises Unfit."""
    if isinstance(value, str):
        return a.a_text(value)
    if isinstance(value, os.PathLike):
        return str(a.a_path(value))
    if isinstance(value, Mapping):
        a.as_json(value)
        return value
    if isinstance(value, bytes | bytearray) or not isinstance(value, Iterable):
        hint = "give a script ('train.py'), a command (['python', 'train.py']), a config.yaml, or a Job as a dict"
        raise a.Unfit(f"{a.shown(value)} is not a program", hint)
    return a.words(value)


def _is_command(program: Any, asked: Mapping[str, Any]) -> bool:
    """Whether it is a plain command. Raises BadSpec for options of the other kind, and for nothing at all."""
    is_file = isinstance(program, str) and Path(program).suffix in _JOB_FILES
    is_job = program is None or isinstance(program, Mapping) or is_file
    if program is None and not {"module", "package_path", "packages", "master_image_uri"} & asked.keys():
        raise BadSpec([Violation("program", "what is to run? stoker.submit('train.py'), or package_path=…, module=…")])
    misplaced = asked.keys() & (_OF_COMMAND if is_job else _OF_TRAINING).keys()
    if misplaced:
        kind, other = ("a command", "a training job") if is_job else ("a training job", "a command")
        raise BadSpec([Violation(key, f"goes with {kind}, and this is {other}") for key in sorted(misplaced)])
    return not is_job


def _command(program: Any, asked: dict[str, Any], progress: Progress) -> Job:
    words = [program] if isinstance(program, str) else program
    folder = asked.pop("folder", Path())
    _check_words(words, folder)
    command = command_of(words, asked.pop("args", ()))
    client, project = the_client(), asked.pop("project", "") or str(settings()["project"])
    environment = environment_of(
        client,
        command,
        folder,
        progress,
        python=asked.pop("python", ""),
        requirements=[file] if (file := asked.pop("requirements", None)) else [],
        packages=asked.pop("with_packages", ()),
    )
    body = {"name": name_of(command), "command": command, **asked, **environment}
    if "cpus" in body:
        body["vcpus"] = body.pop("cpus")
    client.dry_run_command(project, body, outlook=False)  # what is refused uploads nothing
    body["source"] = upload_folder(client, folder, progress)
    return Job(client.run(project, body)["name"], project, client)


def _check_words(words: list[str], folder: Path) -> None:
    """Raise BadSpec for what is not a program, before anything is packed."""
    if not words or not words[0]:
        raise BadSpec([Violation("program", "is empty")])
    is_missing = len(words) == 1 and os.path.isdir(folder) and not os.path.exists(folder / words[0])
    if is_missing and " " in words[0]:
        raise BadSpec([Violation("program", f"{words[0]!r} is not a file; a command is a list: {words[0].split()}")])
    if is_missing and words[0].endswith((".py", ".sh")):
        raise BadSpec([Violation("program", f"there is no {words[0]} in {folder.absolute()}")])


def _training(program: Any, asked: dict[str, Any], progress: Progress) -> Job:
    config = settings()
    file = read_job_file(Path(program)) if isinstance(program, str) else None
    flags = {**asked, "module_name": asked.get("module")}
    body = merge(file.body if file else program or {}, flags, name=asked.get("name"), user_args=asked.get("args"))
    if isinstance(body["trainingInput"], dict):
        body["trainingInput"].setdefault("region", config["region"])
    if not body.get("jobId"):
        body["jobId"] = name_of_rehearsal() if asked.get("rehearse") else name_of([str(asked.get("module", "job"))])
    check_name(body["jobId"])
    client, project = the_client(), asked.get("project") or str(config["project"])
    try:
        upload_packages(
            client,
            body,
            packages=asked.get("packages", ()),
            package_path=asked.get("package_path"),
            requirements=[asked["requirements"]] if asked.get("requirements") else [],
            with_packages=asked.get("with_packages", ()),
            staging_bucket=asked.get("staging_bucket", ""),
            progress=progress,
            check=lambda uploads: client.dry_run(
                project, body, uploads=uploads, rehearse=asked.get("rehearse", False), outlook=False
            ),
        )
        return Job(client.submit(project, body, rehearse=asked.get("rehearse", False))["jobId"], project, client)
    except (BadSpec, NotReady) as error:
        raise located(error, file) from None
