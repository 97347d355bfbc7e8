"""What is asked for: a plain command to run, a node to be cordoned or drained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stoker.core.requirements import MOST_LINES

Text = Annotated[str, Field(pattern="^[^\\x00]*$")]
"""What a program can be handed."""

VARIABLE = "^[^=\\x00]+$"


def _may(text: str, example: object, **rules: Any) -> Any:
    return Field(description=text, examples=[example], **rules)


class RunRequest(BaseModel):
    """A plain command to run in a copy of the user's folder, as one job of a chief and its workers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, _may("The job's name: letters, digits, underscores; first a letter.", "train_3f2a")]
    command: Annotated[
        list[Text], _may("The program and its arguments.", ["python", "train.py"], min_length=1, max_length=10_000)
    ]
    source: Annotated[
        str, _may("A zip that is unpacked into the working directory.", "gs://stoker-source/5ae37f/source.zip")
    ] = ""
    python: Annotated[
        Text,
        _may(
            "The Python to run on: a version, or the path of an interpreter on the machines; empty: the site's own.",
            "3.12",
            max_length=4096,
        ),
    ] = ""
    requirements: Annotated[
        list[Text],
        _may(
            "Packages that the program needs, as lines of a requirements file.", ["tqdm>=4.60"], max_length=MOST_LINES
        ),
    ] = []
    env: Annotated[
        dict[Annotated[str, Field(pattern=VARIABLE)], Text], _may("Variables for the program.", {"SEED": "1"})
    ] = {}
    labels: Annotated[dict[str, str], _may("Labels, as AI Platform has them.", {"team": "vision"})] = {}
    gpus: Annotated[
        float,
        _may(
            "GPUs of each replica. Below one it is a share of a GPU, such as 0.5, which is counted and not enforced: its"
            " program sees the whole device.",
            1,
            ge=0,
            le=64,
            allow_inf_nan=False,
        ),
    ] = 0
    gpu_type: Annotated[
        str, _may("Which GPUs; empty for any. Several with commas between: whichever is free first.", "T4")
    ] = ""
    workers: Annotated[int, _may("Workers beside the chief.", 3, ge=0, le=10_000)] = 0
    vcpus: Annotated[float, _may("vCPUs of each replica.", 4.0, gt=0, le=1024)] = 1.0
    memory_gb: Annotated[float, _may("Memory of each replica in GB; 0 asks for none.", 8.0, ge=0, le=65536)] = 0.0
    job_dir: Annotated[str, _may("Where the program keeps files, in $STOKER_JOB_DIR.", "gs://my-bucket/out")] = ""
    queue: Annotated[str, _may("The queue that it waits in.", "default")] = "default"
    priority: Annotated[int, _may("Greater first.", 0, ge=0, le=1000)] = 0
    preemptible: Annotated[bool, _may("It may be stopped for others at any time, and goes on later.", False)] = False
    resumable: Annotated[bool, _may("Started again, it goes on from its checkpoint.", False)] = False
    max_running_seconds: Annotated[float, _may("It is cancelled after so long.", 3600.0, gt=0, lt=1e12)] = 604800.0
    hang_seconds: Annotated[
        float | None,
        _may("Quiet for so long, it counts as hung; 0: never; null: the site's setting.", 3600.0, ge=0, lt=1e12),
    ] = None
    max_retries: Annotated[
        int | None,
        _may(
            "A failure that may pass is tried again so often, as a whole; null: see docs/running.md.", 5, ge=0, le=1000
        ),
    ] = None
    hold_seconds: Annotated[
        float, _may("When its program fails, its place is kept for so long for a shell.", 1800.0, ge=0, le=604800)
    ] = 0.0
    distribute: Annotated[
        Literal["none", "auto", "mirrored", "multiworker", "ps", "ddp", "fsdp", "jax"],
        _may("How a script that was written for one device trains on all that it has asked for.", "auto"),
    ] = "none"
    precision: Annotated[
        Literal["", "fp32", "bf16", "fp16"], _may("The precision it computes in; empty: its own.", "bf16")
    ] = ""
    learning_rate_rule: Annotated[
        Literal["none", "linear", "sqrt"], _may("How its learning rate grows with the replicas (Keras).", "linear")
    ] = "none"
    checkpoints: Annotated[
        Text,
        _may(
            "How often Keras' `fit` is saved in the job directory, to go on from there: auto, none, or a time.", "auto"
        ),
    ] = "none"
    rehearse: Annotated[bool, _may("Run it on virtual nodes that are made for it.", False)] = False


class CordonRequest(BaseModel):
    """Give a node nothing new."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: Annotated[Text, _may("Why: jobs that wait for the node are told so.", "new driver", max_length=1000)] = ""


class DrainRequest(CordonRequest):
    """Give a node nothing new, and have it empty."""

    within_seconds: Annotated[
        float,
        _may(
            "By when it has to be empty. What still runs there is asked to stop its own grace before that, so that it writes"
            " a checkpoint; with 0, at once.",
            1800.0,
            ge=0,
            lt=1e9,
            allow_inf_nan=False,
        ),
    ] = 0.0
