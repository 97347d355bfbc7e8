"""What a scheduler keeps between decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.core.job import Job, Reason
from stoker.core.node import Node
from stoker.core.site import Queue

from .expected_ends import ExpectedEnds
from .footprints import Footprints
from .free import Free
from .history import History
from .keys import Keys
from .reserve import Reservation
from .rules import Rules
from .runners import Runners
from .shapes import Shape, Shapes
from .spending import Spending
from .usage import Usage
from .waiting import Standing, Waiting


@dataclass(slots=True)
class SchedulerState:
    """What follows from the World, brought up to it change by change, and what was found out and holds on.

    What lives for one round only stands in rounds.py.
    """

    rules: Rules
    free: Free
    usage: Usage
    waiting: Waiting
    keys: Keys
    runners: Runners
    ends: ExpectedEnds
    history: History
    footprints: Footprints = field(default_factory=Footprints)
    shapes: Shapes = field(default_factory=Shapes)
    spending: Spending = field(default_factory=Spending)
    stopping: dict[str, None] = field(default_factory=dict)  # attempts that are about to give back what they hold
    given_back: int = 0  # grows whenever somebody gives something back
    claims: dict[str, frozenset[str]] = field(default_factory=dict)  # job id → nodes on which others are stopped for it
    reservations: dict[str, Reservation] = field(default_factory=dict)  # job id → what is kept for it
    coming: Mapping[str, int] = field(default_factory=dict)  # pool → machines that are to come
    claimed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Job id → nodes that are kept for it while it waits for more machines."""
    _empty: Free = field(default_factory=lambda: Free(()))  # the same nodes, with nobody on them
    _fits: dict[Shape, bool] = field(default_factory=dict)  # whether the nodes could ever hold a shape
    _never: dict[tuple[str, Shape], bool] = field(default_factory=dict)  # whether a queue could never hold a shape
    _impossible: dict[Shape, Reason] = field(default_factory=dict)  # as `why_impossible` gives it
    _no_room: dict[Shape, Reason] = field(default_factory=dict)  # as `why_no_room` gives it
    _no_victims: dict[str, tuple[object, float]] = field(default_factory=dict)
    """Job id → in what state it was found that nobody can go for it, and until when that holds."""

    def take_nodes(self, usable: Sequence[Node], coming: Sequence[Node]) -> None:
        """The nodes are others: what is known of the old ones is forgotten, and nothing of these is held yet.

        `coming`: machines of pools that are not there yet, on which a job could be.
        """
        self.free, self._empty = Free(usable), Free([*usable, *coming])
        self.given_back += 1
        for known in (self._fits, self._impossible, self._no_room, self.reservations):
            known.clear()

    def forget_waiting(self, job: str) -> None:
        """It waits no more: what was kept for it is there for others."""
        self.waiting.discard(job)
        for known in (self.reservations, self.claims, self._no_victims):
            known.pop(job, None)

    def want_no_machines(self) -> None:
        """Nobody waits: nothing is to come."""
        self.coming, self.claimed = {}, {}

    def could_ever_fit(self, job: Job, shape: Shape) -> bool:
        """Whether the nodes could hold a job of a shape if nobody else held anything."""
        fits = self._fits.get(shape)
        if fits is None:
            mark = self._empty.checkpoint()
            fits = self._fits[shape] = self.rules.placer.place(job.id, job.spec, self._empty) is not None
            self._empty.rollback(mark)
        return fits

    def why_impossible(self, shape: Shape, explained: Callable[[], Reason]) -> Reason:
        """What one of a shape is told that the nodes cannot hold: explained once, until the nodes are others."""
        if shape not in self._impossible:
            self._impossible[shape] = explained()
        return self._impossible[shape]

    def why_no_room(self, shape: Shape, explained: Callable[[], Reason]) -> Reason:
        """What one of a shape is told that finds no room: explained once, until the nodes are others."""
        if shape not in self._no_room:
            self._no_room[shape] = explained()
        return self._no_room[shape]

    def never_may(self, queue: Queue, shape: Shape) -> bool:
        """Whether a queue could not hold a shape even if nobody held anything."""
        never = self._never.get((queue.name, shape))
        if never is None:
            never = self._never[queue.name, shape] = self.usage.ever_exceeds(queue, shape.amounts) is not None
        return never

    def no_victims_until(self, job: str, stamp: object, now: float) -> float | None:
        """Until when nobody can go for a job, if that was found in this very state. None: it has to be looked for."""
        known, until = self._no_victims.get(job, (None, 0.0))
        return until if known == stamp and now < until else None

    def note_no_victims(self, job: str, stamp: object, until: float) -> None:
        """Nobody was found who could go for it; in the same state nobody is until then."""
        self._no_victims[job] = (stamp, until)

    def standing(self, now: float) -> Callable[[str], Standing]:
        """How sharers stand: who is within its own goes before who borrows; then who has the smaller share."""

        def of(sharer: str) -> Standing:
            queue = sharer.partition("/")[0]
            return self.usage.borrows(self.rules.queue(queue)), self.usage.share(queue, sharer, now)

        return of
