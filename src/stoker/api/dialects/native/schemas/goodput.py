"""What became of the time for which machines were held."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says

_PHASES = (
    "Seconds by phase: starting, gang, productive, input, communication, checkpoint, evaluation, lost, idle, stopping, unknown;"
    " docs/goodput.md says what each is. They add up to what was held."
)


class GoodputOfReplica(TypedDict):
    """One replica of one attempt."""

    attempt: Annotated[int, says("The attempt.", 1)]
    replica: Annotated[str, says("The replica.", "worker-0")]
    node: Annotated[str, says("Where it was.", "local-nvidia_tesla_t4")]
    accelerator: Annotated[str, says("The type of its accelerators; empty for none.", "NVIDIA_TESLA_T4")]
    accelerators: Annotated[float, says("How many it held; a share of one counts as its part.", 2.0)]
    held_seconds: Annotated[float, says("For how long it held its place.", 100.0)]
    seconds: Annotated[dict[str, float], says(_PHASES, {"productive": 80.0, "starting": 20.0})]
    usd: Annotated[float | None, says("What that cost; null: no price is known.", 0.5)]


class GoodputOfJob(TypedDict):
    """What became of the time for which a job held its machines."""

    is_final: Annotated[bool, says("Whether the job has ended: then it does not change any more.", True)]
    weight: Annotated[str, says("What a second counts for: accelerator, or machine where it has none.", "accelerator")]
    held_seconds: Annotated[float, says("Accelerator-seconds, or machine-seconds, of all replicas.", 200.0)]
    goodput: Annotated[
        float | None, says("The productive part of them, 0 to 1; null: the program told nothing of steps.", 0.8)
    ]
    seconds: Annotated[dict[str, float], says(_PHASES, {"productive": 160.0, "starting": 40.0})]
    fault_seconds: Annotated[float, says("Of what was lost: by the site's fault (lost node, preempted, drained).", 0.0)]
    knows_lost: Annotated[
        bool, says("False: it goes on from checkpoints of its own, so what was lost to restarts is not known.", True)
    ]
    usd: Annotated[float | None, says("What it cost; null: of a part no price is known.", 0.5)]
    replicas: Annotated[list[GoodputOfReplica], says("Of each attempt, each replica.", [])]


class GoodputRow(TypedDict):
    """Jobs taken together."""

    name: Annotated[str, says("Of what they have in common.", "local")]
    weight: Annotated[str, says("What a second counts for: accelerator, or machine.", "accelerator")]
    jobs: Annotated[int, says("How many jobs.", 12)]
    held_seconds: Annotated[float, says("Accelerator-seconds, or machine-seconds.", 3600.0)]
    goodput: Annotated[float | None, says("The productive part, 0 to 1; null: nothing is known.", 0.8)]
    seconds: Annotated[dict[str, float], says(_PHASES, {"productive": 2880.0})]
    fault_seconds: Annotated[float, says("Of what was lost: by the site's fault.", 0.0)]
    usd: Annotated[float | None, says("What it cost; null: of a part no price is known.", 3.5)]


class Goodput(TypedDict):
    """What became of held time on the site."""

    since: Annotated[float, says("From when, in seconds since 1970.", 1760000000.0)]
    until: Annotated[float, says("Until when.", 1760003600.0)]
    rows: Annotated[list[GoodputRow], says("Those that have held the most first.", [])]
