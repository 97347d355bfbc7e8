"""How a job trains, as it is shown."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .findings import Finding
from .words import Time, says

_UNKNOWN = "null where it is not known"
_VALUES = "What it has reported, by name. What is not a number is a word: nan, inf or -inf."


class Point(TypedDict):
    """Some steps of a replica, one after the other."""

    at: Annotated[float, says(f"When they were over. {Time}", 1795190400.0)]
    step: Annotated[int, says("The number of the last of them, counted from the start of its program.", 1200)]
    steps_per_second: Annotated[float | None, says(f"How many a second; {_UNKNOWN}.", 8.1)]
    data_wait_share: Annotated[
        float | None, says(f"How much of their time it waited for data, 0 to 1; {_UNKNOWN}.", 0.04)
    ]
    values: Annotated[dict[str, float | str], says(_VALUES, {"loss": 0.31})]


class ReplicaSteps(TypedDict):
    """How one replica trains. Rates and shares are those of its last half minute, without its first step."""

    replica: Annotated[str, says("Which replica.", "worker-0")]
    step: Annotated[int, says("So many steps its program has done.", 1200)]
    runs: Annotated[int, says("How often its program was started in this attempt.", 1)]
    told_at: Annotated[float, says(f"When it last told. {Time}", 1795190400.0)]
    steps_per_second: Annotated[float | None, says(f"Steps a second; {_UNKNOWN}.", 8.1)]
    examples_per_second: Annotated[float | None, says(f"Examples a second; {_UNKNOWN}.", 259.0)]
    step_seconds: Annotated[float | None, says(f"The mean time of a step, in seconds; {_UNKNOWN}.", 0.123)]
    longest_step_seconds: Annotated[float, says("The longest step, in seconds.", 0.3)]
    first_step_seconds: Annotated[
        float | None, says(f"The first step of all, in which frameworks compile; {_UNKNOWN}.", 4.2)
    ]
    epoch_steps: Annotated[int | None, says(f"So many steps an epoch of it has; {_UNKNOWN}.", 45)]
    data_wait_share: Annotated[float | None, says(f"How much of its time it waits for data, 0 to 1; {_UNKNOWN}.", 0.04)]
    together_share: Annotated[
        float | None,
        says(
            f"How much of its time it waits for, or exchanges gradients with, other replicas, 0 to 1; {_UNKNOWN}.", 0.1
        ),
    ]
    values: Annotated[dict[str, float | str], says(_VALUES, {"loss": 0.31})]
    series: Annotated[list[Point], says("How it went, the oldest first.", [])]


class Saves(TypedDict):
    """The checkpoints that `--checkpoints` and `stoker.checkpoint` have written in this attempt."""

    step: Annotated[int | None, says("The step of the newest; null: none was written yet.", 1200)]
    at: Annotated[float | None, says(f"When it was on the disk. {Time}", 1795190400.0)]
    seconds: Annotated[float | None, says("How long it took to write it.", 1.4)]
    stall_seconds: Annotated[float | None, says("For how much of that training stood still.", 0.06)]
    bytes: Annotated[int, says("Its size.", 3145728)]
    count: Annotated[int, says("So many were written.", 12)]
    resumed_step: Annotated[int | None, says("The step that this attempt went on from; null: it began anew.", None)]
    went_on_at: Annotated[float | None, says(f"When the first step after that was over. {Time}", None)]


class Scaling(TypedDict):
    """How much quicker it is than the same program was on less of the same hardware, in a probe."""

    probe: Annotated[str, says("The probe's job.", "probe_1123_024628_1xT4")]
    devices: Annotated[int, says("So many accelerators, or machines without any, train here.", 2)]
    probe_devices: Annotated[int, says("So many did there.", 1)]
    speed_up: Annotated[float, says("So many times as quick it goes through its data.", 1.67)]
    efficiency: Annotated[float, says("The speed-up for each time as many devices, 0 to 1 and seldom above.", 0.835)]


class Training(TypedDict):
    """How a job trains."""

    attempt: Annotated[int | None, says("The attempt that is told of; null: none has told of any step.", 1)]
    way: Annotated[str, says("How Stoker has distributed it, as its first step has shown; empty if it has not.", "")]
    replicas_in_step: Annotated[
        int | None, says("So many copies of the model train in step; null if nobody looked.", 3)
    ]
    replicas: Annotated[list[ReplicaSteps], says("Those that have told of steps, the chief first.", [])]
    scaling: Annotated[Scaling | None, says("Null if no probe of this program on less of the same is known.", None)]
    saves: Annotated[Saves, says("Its checkpoints.", {})]
    findings: Annotated[list[Finding], says("What is wrong with it, the worst first.", [])]
