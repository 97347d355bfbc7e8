"""Training jobs: a module of the user's packages, a command in the user's folder, or a container's entry point."""

from __future__ import annotations

from stoker.core.errors import NotFound
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt, Job
from stoker.core.launch import Launch, LaunchReplica, Surroundings
from stoker.core.spec import Group


class Training:
    """Implements Kind."""

    def launch(self, job: Job, attempt: Attempt, surroundings: Surroundings) -> Launch:
        """What to run for this attempt."""
        spec = job.spec
        groups = {group.role: group for group in spec.groups}
        env = _environment(job, attempt, surroundings)
        return Launch(
            attempt=attempt.id,
            number=attempt.number,
            primary_name=spec.primary_name,
            told=spec.told,
            packages=surroundings.packages,
            source=surroundings.source,
            grace_seconds=spec.limits.grace_seconds,
            in_place=spec.retry.in_place,
            replicas=tuple(
                LaunchReplica(
                    role=place.role,
                    index=place.index,
                    node=place.node,
                    devices=place.devices,
                    python=_python(groups[place.role], surroundings),
                    command=_command(job, groups[place.role], surroundings),
                    env=env,
                    is_container=bool(groups[place.role].image),
                )
                for place in attempt.placements
            ),
        )


def _command(job: Job, group: Group, surroundings: Surroundings) -> tuple[str, ...]:
    """The user's arguments, then `--job-dir` and the directory as two items (contract 3.1)."""
    program = job.spec.program
    if group.image:
        start, args = group.command or _stand_in(group, surroundings), group.args or program.args
    elif program.command:
        return program.command  # a plain command is run as it was typed
    else:
        start, args = (surroundings.python, "-m", program.module), program.args
    job_dir = ("--job-dir", surroundings.job_dir) if surroundings.job_dir else ()
    return (*start, *args, *job_dir)


def _python(group: Group, surroundings: Surroundings) -> str:
    """The interpreter: the one that stands in for the group's image, or the runtime's."""
    return _stand_in(group, surroundings)[0] if group.image else surroundings.python


def _stand_in(group: Group, surroundings: Surroundings) -> tuple[str, ...]:
    """The interpreter and entry point for an image. Raises NotFound: the setting may be gone since the job was accepted."""
    if group.image not in surroundings.images:
        raise NotFound(f"nothing here stands in for the image {group.image} any more (the setting `images`)")
    return surroundings.images[group.image]


def _environment(job: Job, attempt: Attempt, surroundings: Surroundings) -> dict[str, str]:
    """The variables that are the same for every replica. Those of the cluster come from runtime/wiring.py."""
    project, name = split_job_id(job.id)
    env = {
        "CLOUD_ML_JOB_ID": name,
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
    return env | dict(job.spec.program.env)
