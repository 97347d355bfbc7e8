"""The options of a job as keywords of `stoker.submit`. Drawn by `make docs` from core/options.py."""

from __future__ import annotations

from typing import TypedDict


class JobOptions(TypedDict, total=False):
    """What may be asked of any job; docs/options.md tells the same with flags and labels."""

    queue: str | None
    """The queue that it waits in. Without it: default."""

    priority: int | None
    """0 to 1000, greater first. Without it: 0."""

    preemptible: bool | None
    """It may be stopped for others at any time, and goes on later."""

    resumable: bool | None
    """Started again, it goes on from its checkpoint."""

    hang_seconds: float | None
    """Without output, beat and progress for so long it counts as hung; 0: never. Without it: as the site says."""

    max_retries: int | None
    """Try a failure that may pass N times more, however alike they are. Without it: 5 in place, 3 as a whole."""

    hold_seconds: float | None
    """When its program fails, keep its place for so long, such as 30m, for `stoker jobs shell`."""

    distribute: str | None
    """Train a script for one device on all GPUs and replicas; auto: as its framework does best."""

    precision: str | None
    """What it computes in. Without it: its own."""

    learning_rate_rule: str | None
    """With --distribute: how the learning rate grows with the replicas (Keras). Without it: none."""

    checkpoints: str | None
    """Save Keras' fit in the job directory so often, and go on from there when it is started again."""
