"""Training jobs: a module of the user's packages, a command in the user's folder, or a container's entry point."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.core.convention import Convention
from stoker.core.errors import NotFound
from stoker.core.ids import CUSTOM_JOB_PREFIX, split_job_id
from stoker.core.images import stand_in
from stoker.core.job import Attempt, Job
from stoker.core.launch import Launch, LaunchReplica, Surroundings
from stoker.core.mounts import unmounted
from stoker.core.spec import Environment, Group

_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


class Training:
    """Implements Kind."""

    def launch(self, job: Job, attempt: Attempt, surroundings: Surroundings) -> Launch:
        """What to run for this attempt."""
        spec = job.spec
        groups = {group.role: group for group in spec.groups}
        env = {role: _environment(job, group, attempt, surroundings) for role, group in groups.items()}
        commands = {role: _command(job, group, surroundings) for role, group in groups.items()}
        return Launch(
            attempt=attempt.id,
            number=attempt.number,
            convention=spec.convention,
            primary_name=spec.primary_name,
            told=spec.told,
            packages=surroundings.packages,
            source=surroundings.source,
            grace_seconds=spec.limits.grace_seconds,
            in_place=spec.retry.in_place,
            ends_early=spec.retry.ends_early,
            failures=job.failures,
            owner=job.owner,
            folders=surroundings.folders,
            limits=surroundings.limits,
            environment=spec.program.environment,
            hang_seconds=spec.limits.hang_seconds,
            hold_seconds=spec.limits.hold_seconds,
            replicas=tuple(
                LaunchReplica(
                    role=place.role,
                    index=place.index,
                    node=place.node,
                    devices=place.devices,
                    python=_python(groups[place.role], surroundings, spec.program.environment),
                    command=commands[place.role],
                    env=env[place.role],
                    is_container=bool(groups[place.role].image),
                    machine=groups[place.role].machine,
                )
                for place in attempt.placements
            ),
            lease_seconds=attempt.lease_seconds,
        )


def _command(job: Job, group: Group, surroundings: Surroundings) -> tuple[str, ...]:
    """The user's arguments, then, for AI Platform, `--job-dir` and the directory as two items (contract 3.1)."""
    program = job.spec.program
    module = group.module or program.module
    if group.image:
        start = (_stand_in(group, surroundings)[0], "-m", module) if group.module else group.command
        start = start or _stand_in(group, surroundings)
        args = tuple(unmounted(text, surroundings.buckets) for text in group.args or program.args)
        start = tuple(unmounted(text, surroundings.buckets) for text in start)
    elif program.command:
        return program.command  # a plain command is run as it was typed
    else:
        is_made = program.environment.python and not program.environment.is_path  # its own come first on PATH
        python = "python" if is_made else surroundings.python
        start, args = (python, "-m", module), group.args or program.args
    is_told = surroundings.job_dir and job.spec.convention is Convention.AI_PLATFORM
    return (*start, *args, *(("--job-dir", surroundings.job_dir) if is_told else ()))


def _python(group: Group, surroundings: Surroundings, environment: Environment) -> str:
    """The interpreter: the one that stands in for the group's image, the one that was asked for, or the runtime's."""
    if group.image:
        return _stand_in(group, surroundings)[0]
    return environment.python if environment.is_path else surroundings.python


def _stand_in(group: Group, surroundings: Surroundings) -> tuple[str, ...]:
    """The interpreter and entry point for an image. Raises NotFound: the setting may be gone since the job was accepted."""
    found = stand_in(surroundings.images, group.image)
    if found is None:
        raise NotFound(f"nothing here stands in for the image {group.image} any more (the setting `images`)")
    return found


def _environment(job: Job, group: Group, attempt: Attempt, surroundings: Surroundings) -> dict[str, str]:
    """The variables that are the same for every replica of a group. Those of the cluster come from runtime/wiring.py."""
    project, name = split_job_id(job.id)
    is_vertex = job.spec.convention is Convention.VERTEX
    env = {
        "CLOUD_ML_JOB_ID": name.removeprefix(CUSTOM_JOB_PREFIX) if is_vertex else name,
        "CLOUD_ML_PROJECT_ID": project,
        "CLOUD_ML_REGION": job.spec.region,
        "STOKER_JOB_ID": job.id,
        "STOKER_JOB_NAME": name,
        "STOKER_PROJECT": project,
        "STOKER_ATTEMPT": str(attempt.number),
    }
    if surroundings.job_dir:
        base = surroundings.job_dir.rstrip("/")
        env |= {
            "STOKER_JOB_DIR": surroundings.job_dir,
            "STOKER_CHECKPOINT_DIR": f"{base}/checkpoints",
            "AIP_MODEL_DIR": f"{base}/model/",
            "AIP_CHECKPOINT_DIR": f"{base}/checkpoints/",
            "AIP_TENSORBOARD_LOG_DIR": f"{base}/logs/",
        }
    env |= job.spec.program.variables
    env |= job.spec.program.env
    for key, value in group.env.items():
        env[key] = unmounted(expanded(value, env) if is_vertex else value, surroundings.buckets)
    return env


def expanded(text: str, known: Mapping[str, str]) -> str:
    """The text with `$(VAR)` replaced where VAR is known. `$$(VAR)` stands for `$(VAR)` itself (Vertex AI v1, EnvVar.value)."""
    return _REFERENCE.sub(lambda m: m[0][1:] if m[1] else known.get(m[2], m[0]), text)
