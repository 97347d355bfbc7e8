"""When each replica of an attempt was ready, ran, stood still and ended, as its story tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.core.changes import Note
from stoker.core.job import Attempt
from stoker.core.states import ReplicaState, Standing

_OVER = frozenset({ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST})


@dataclass(slots=True, kw_only=True)
class Life:
    """One replica of one attempt."""

    node: str
    ready_at: float | None = None  # its environment was made, and it waited for the others
    up_at: float | None = None  # its program was started
    over_at: float | None = None
    quiet: list[tuple[float, float | None]] = field(default_factory=list)  # it stood still; None: it still does

    @property
    def is_quiet(self) -> bool:
        """Whether it stood still when it was last heard of."""
        return bool(self.quiet) and self.quiet[-1][1] is None

    def quiet_between(self, since: float, until: float) -> float:
        """For how many seconds of a span it stood still, and then went on."""
        return sum(max(0.0, min(end, until) - max(start, since)) for start, end in self.quiet if end is not None)


def lives_of(attempts: Sequence[Attempt], notes: Iterable[Note]) -> Mapping[str, Mapping[str, Life]]:
    """By the id of an attempt, and by replica (`worker-0`). `notes`: in the order in which they came."""
    found = {
        attempt.id: {f"{place.role}-{place.index}": Life(node=place.node) for place in attempt.placements}
        for attempt in attempts
    }
    for note in notes:
        life = found.get(note.attempt, {}).get(f"{note.role}-{note.index}")
        if life is not None:
            _hear(life, note)
    return found


def _hear(life: Life, note: Note) -> None:
    if note.addresses and life.ready_at is None:
        life.ready_at = note.at
    if note.seen is ReplicaState.UP:
        life.up_at = note.at if life.up_at is None else life.up_at
        if note.standing is Standing.QUIET and not life.is_quiet:
            life.quiet.append((note.at, None))
        elif note.standing is Standing.HELD and life.over_at is None:
            life.over_at = note.at  # its place is kept for somebody who looks
        elif note.standing is Standing.GOING and life.is_quiet:
            life.quiet[-1] = life.quiet[-1][0], note.at
    elif note.seen in _OVER and life.over_at is None:
        life.over_at = note.at
