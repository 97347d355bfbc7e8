"""What a scheduler keeps between decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stoker.core.job import Job, Reason
from stoker.core.site import Queue

from .books import Books
from .ends import Ends
from .footprints import Footprints
from .free import Free
from .history import History
from .keys import Keys
from .reserve import Reservation
from .rules import Rules
from .runners import Runners
from .shapes import Shape, Shapes
from .spending import Spending
from .waiting import Standing, Waiting


@dataclass(slots=True)
class Kept:
    """What is kept between rounds."""

    rules: Rules
    free: Free
    empty: Free  # the same nodes, with nobody on them
    books: Books
    waiting: Waiting
    keys: Keys
    runners: Runners
    ends: Ends
    stopping: dict[str, None]  # attempts that are about to give back what they hold
    history: History
    footprints: Footprints = field(default_factory=Footprints)
    given_back: int = 0  # grows whenever somebody gives something back
    no_victims: dict[str, tuple[object, float]] = field(default_factory=dict)
    """Job id → in what state it was found that nobody can go for it, and until when that holds."""
    claims: dict[str, frozenset[str]] = field(default_factory=dict)  # job id → nodes on which others are stopped for it
    shapes: Shapes = field(default_factory=Shapes)
    possible: dict[Shape, bool] = field(default_factory=dict)  # whether the nodes could ever hold a shape
    impossible: dict[Shape, Reason] = field(
        default_factory=dict
    )  # what one of a shape is told that the nodes cannot hold
    no_room: dict[Shape, Reason] = field(default_factory=dict)  # what one of a shape is told that finds no room
    never: dict[tuple[str, Shape], bool] = field(default_factory=dict)  # whether a queue could never hold a shape
    coming: Mapping[str, int] = field(default_factory=dict)  # pool → machines that are to come
    claimed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Job id → nodes that are kept for it while it waits for more machines."""
    spending: Spending = field(default_factory=Spending)
    reservations: dict[str, Reservation] = field(default_factory=dict)  # job id → what is kept for it

    def could_ever_fit(self, job: Job, shape: Shape) -> bool:
        """Whether the nodes could hold a job of a shape if nobody else held anything."""
        possible = self.possible.get(shape)
        if possible is None:
            mark = self.empty.checkpoint()
            possible = self.possible[shape] = self.rules.placer.place(job.id, job.spec, self.empty) is not None
            self.empty.rollback(mark)
        return possible

    def never_may(self, queue: Queue, shape: Shape) -> bool:
        """Whether a queue could not hold a shape even if nobody held anything."""
        never = self.never.get((queue.name, shape))
        if never is None:
            never = self.never[queue.name, shape] = self.books.ever_exceeds(queue, shape.amounts) is not None
        return never

    def standing(self, now: float) -> Callable[[str], Standing]:
        """How sharers stand: who is within its own goes before who borrows; then who has the smaller share."""

        def of(sharer: str) -> Standing:
            queue = sharer.partition("/")[0]
            return self.books.borrows(self.rules.queue(queue)), self.books.share(queue, sharer, now)

        return of
