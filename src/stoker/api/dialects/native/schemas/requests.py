"""What is asked for: a plain command to run, a node to be cordoned or drained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from stoker.core.options import OPTIONS, Choice, Count, Option, Switch, Time
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
    max_running_seconds: Annotated[float, _may("It is cancelled after so long.", 3600.0, gt=0, lt=1e12)] = 604800.0
    rehearse: Annotated[bool, _may("Run it on virtual nodes that are made for it.", False)] = False

    @property
    def options(self) -> dict[str, Any]:
        """What it says of each of a job's options (core/options.py)."""
        return {option.name: getattr(self, option.name) for option in OPTIONS}


def _field(option: Option) -> tuple[Any, Any]:
    """An option as a field: its type, with its description and example, and its default."""
    rules: dict[str, Any] = {"description": option.help, "examples": [option.example]}
    match option.kind:
        case Choice(words):
            kind: Any = Literal[tuple(dict.fromkeys((option.default, *words)))]
        case Switch():
            kind = bool
        case Count(most):
            kind, rules = int, {**rules, "ge": 0, "le": most}
        case Time() as time:
            kind, rules = float, {**rules, "ge": 0, "le": time.most_seconds}
        case _:
            kind = Text
    return Annotated[kind if option.default is not None else kind | None, Field(**rules)], option.default


_OPTIONS: Any = {option.name: _field(option) for option in OPTIONS}
RUN_REQUEST = create_model("RunRequest", __base__=RunRequest, __doc__=RunRequest.__doc__, **_OPTIONS)
"""A RunRequest with a field for each option, as it is read and described."""


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
