"""The control loop: what is seen, what follows, what is done, and round again. One thread; nobody else moves a state."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from stoker.clock import Clock
from stoker.core.changes import Change, CordonNode, MoveAttempt, NodeFailed
from stoker.core.errors import Conflict, Deposed, StokerError
from stoker.core.job import Attempt, Job
from stoker.core.node import pool_record
from stoker.core.states import AttemptState
from stoker.core.world import World, apply
from stoker.engines.base import Engine, Supplier
from stoker.scheduling.history import History
from stoker.scheduling.nodes import lemons
from stoker.scheduling.rules import Rules
from stoker.scheduling.scheduler import Scheduler
from stoker.scheduling.spending import month_start
from stoker.store.base import Store

from .enact import Enact
from .leases import Leases
from .observe import Lines, NodeWatch, observe_replicas, rehearsals_gone

LOOK_SECONDS = 1.0
"""How often live attempts are looked at when nobody rings: a replica whose end was reported is seen at once."""

IDLE_SECONDS = 30.0

WRITER = "loop"
"""Who has written a line of the story: this loop."""

REMEMBERED_SECONDS = 30 * 86400.0
MOST_REMEMBERED = 20_000
"""Of the jobs that ended in the last thirty days, so many teach a new scheduler how long jobs run."""

LONG_ROUND_SECONDS = 0.02
LONGEST_BREATH_SECONDS = 0.25
_MOST_ROUNDS = 50
_log = logging.getLogger("stoker.loop")


@dataclass(slots=True, kw_only=True)
class Loop:
    """The loop, with what it drives."""

    store: Store
    logs: Lines
    engines: Mapping[str, Engine]
    rules: Rules
    enact: Enact
    clock: Clock
    hold: bool = False
    leases: Leases = field(default_factory=Leases)
    elastic: Supplier | None = None  # orders machines of the site's pools
    histories: Callable[[], History] = History  # what a new scheduler learns run times with
    _world: World = field(init=False)
    _scheduler: Scheduler = field(init=False)
    _nodes: NodeWatch = field(init=False)
    _bell: threading.Event = field(default_factory=threading.Event)
    _is_half_done: bool = False
    _term: int | None = None  # in which it decides
    _stopping: threading.Event = field(default_factory=threading.Event)
    _said: str = ""  # of what goes wrong now
    _ended: list[Attempt] = field(default_factory=list)  # and not forgotten yet
    _thread: threading.Thread | None = None
    rounds: int = 0  # that its thread has gone
    round_seconds: float = 0.0  # of all of them together
    longest_round_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._nodes = NodeWatch(self.engines)
        for job in self._read_anew(taught=()):
            self.rules.placer.learns(job.spec)

    def tick(self) -> bool:
        """One round. Returns whether more may follow at once. After one that failed, the next begins with a world read anew."""
        if self._is_half_done:
            self._read_anew(taught=self._scheduler.taught)
        self._is_half_done = True
        try:
            goes_on = self._round()
        except Conflict as error:  # a user's wish came just before what was decided without it
            _log.debug("decided anew: %s", error)
            return True
        self._is_half_done = False
        return goes_on

    def _round(self) -> bool:
        self._bell.clear()  # what rings from here on is news, or our own writing
        self._catch_up()
        world, now = self._world, self.clock.now()
        # 1. What is seen: written first, for a replica may tell of its end at the same moment, and the first word counts.
        nodes = self._commit([*self._nodes.look(world), *self._refused(now)])
        over = self.leases.run_out(world, now, are_nodes_new=nodes > 0)
        written = nodes + self._commit([*observe_replicas(self.engines, world, self.logs, now), *over])
        # 2. What follows from it, and who is next.
        settled = self._scheduler.settle(world, now)
        self._ended += [world.attempts[change.attempt] for change in settled if _ends(change)]
        self._carry(settled)
        cordons = self._carry(self._lemons(settled, now))
        gone = self._carry(rehearsals_gone(world))
        decided = self._carry(self._scheduler.decide(world, now).changes)
        written += self._commit([*settled, *cordons, *gone, *decided], is_carried=True)
        # 3. What is done.
        if self.elastic is not None:
            self.elastic.want(self._scheduler.wanted(world))
        orders = self._scheduler.due(world, now)
        refused = self._commit(self.enact(orders, world, now)) if orders else 0
        while self._ended:  # also those of a round that failed after they had ended
            attempt = self._ended.pop()
            if attempt.id not in self._world.attempts:
                self.leases.forget(attempt)
                if attempt.engine in self.engines:
                    self.engines[attempt.engine].forget(attempt.id)
        return bool(refused or (written and (orders or self._scheduler.is_due)))

    def _refused(self, now: float) -> list[NodeFailed]:
        """What was ordered and does not come, on the account of the first for whom it was."""
        found = []
        for refusal in self.elastic.refusals() if self.elastic is not None else ():
            waiting = next(
                (
                    job.id
                    for job in self._world.jobs.values()
                    if job.ordered and refusal.pool in dict(job.ordered.machines)
                ),
                None,
            )
            _log.warning("the pool %s: %s", refusal.pool, refusal.why)
            if waiting is not None:  # nobody else asks for it
                found.append(NodeFailed(node=pool_record(refusal.pool), job=waiting, at=now, what=refusal.why))
        return found

    def _lemons(self, settled: Sequence[Change], now: float) -> list[CordonNode]:
        """The nodes that are to blame too often."""
        failed = [change for change in settled if isinstance(change, NodeFailed)]
        cordons, alarms = lemons(self._world, failed, now) if failed else ([], [])
        for alarm in alarms:
            _log.warning("%s", alarm)
        for change in cordons:
            _log.warning("node %s is cordoned: %s", change.node, change.cordon.why)
        return cordons

    def settle_down(self) -> None:
        """Tick until nothing follows any more from what is seen now."""
        for _ in range(_MOST_ROUNDS):
            if not self.tick():
                return
        _log.debug("%d rounds without rest: news comes as fast as it is dealt with", _MOST_ROUNDS)

    @property
    def runs(self) -> bool:
        """Whether its thread goes round. It ends when it is told to, or when another server has taken the lead."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, term: int | None = None) -> None:
        """Run in a thread of its own until `stop`, or until a later term than this begins. Begins with a world read anew.

        When this returns the nodes are written: nobody who submits now is refused for want of those that are there. Raises
        Deposed.
        """
        if self._thread is None:
            self.store.listen(lambda _: self._bell.set())
        self._term, self._is_half_done = term, True
        self._stopping.clear()
        self._try(self._look_around)
        self._thread = threading.Thread(target=self._run, name="control-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs now."""
        self._stopping.set()
        self._bell.set()
        if self._thread is not None:
            self._thread.join()

    def ring(self) -> None:
        """Look now: there is news that no commit tells of."""
        self._bell.set()

    def next_deadline(self) -> float | None:
        """When time alone will next demand a round, in seconds since the epoch. None: never."""
        return self._scheduler.next_deadline()

    def _run(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                is_well = self._try(self.settle_down)
            except Deposed as error:
                _log.error("the control loop ends: %s", error)
                return
            if is_well:
                seconds = time.monotonic() - started
                self.rounds, self.round_seconds = self.rounds + 1, self.round_seconds + seconds
                self.longest_round_seconds = max(seconds, self.longest_round_seconds)
                self._breathe(seconds)
                self._bell.wait(self._pause())
            else:
                self._stopping.wait(LOOK_SECONDS)  # not for the notifier, which rings for whatever else fails as well

    def _look_around(self) -> None:
        """Read the world, and write what the nodes are."""
        self._read_anew(taught=self._scheduler.taught)
        self._commit(self._nodes.look(self._world))
        self._is_half_done = False

    def _try(self, what: Callable[[], None]) -> bool:
        """Whether it went well; what went wrong is logged, once, and the next round makes up for it. Raises Deposed."""
        said, self._said = self._said, ""
        try:
            what()
            return True
        except Deposed:
            raise
        except Exception as error:
            self._said = str(error)
            if self._said != said:
                is_ours = isinstance(error, StokerError)
                words = f": {error}" if is_ours else ""
                _log.error("a round of the control loop failed and is repeated%s", words, exc_info=not is_ours)
        return False

    @staticmethod
    def _breathe(took_seconds: float) -> None:
        """After long rounds, leave the machine to those who submit: with much to decide, deciding more often decides no more."""
        if took_seconds > LONG_ROUND_SECONDS:
            time.sleep(min(LONGEST_BREATH_SECONDS, 3 * took_seconds))

    def _pause(self) -> float:
        longest = LOOK_SECONDS if self._world.attempts else IDLE_SECONDS
        deadline = self.next_deadline()
        return longest if deadline is None else min(longest, max(0.01, deadline - self.clock.now()))

    def _read_anew(self, taught: Collection[str]) -> list[Job]:
        """A world of our own, and a scheduler that knows what this site's ended jobs teach. Returns those.

        `taught`: live jobs that the placer has learned from already.
        """
        now = self.clock.now()
        ended = self.store.ended(now - REMEMBERED_SECONDS, MOST_REMEMBERED)
        self._scheduler = Scheduler(self.rules, hold=self.hold, history=self.histories(), teaches=taught)
        self._scheduler.learn(ended, now)
        if self.rules.site.budgets:
            held = self.store.held_since(month_start(now))
            self._scheduler.learn_spending((attempt for _, attempt in held), now)
        self._world = self.store.world()
        return ended

    def _catch_up(self, carried: Sequence[Change] = ()) -> None:
        """Carry into our own world what is written, but for what is `carried` into it already.

        What others write meanwhile (wishes, and what replicas tell) gives the same rows before what we have decided and after it.
        """
        own = deque(carried)
        if self.store.position() != self._world.position:
            for line in self.store.story(after=self._world.position):
                if own and line.by == WRITER and line.change == own[0]:
                    own.popleft()
                else:
                    self._carry([line.change])
                self._world.position = line.n

    def _carry(self, changes: Sequence[Change]) -> Sequence[Change]:
        for change in changes:
            apply(self._world, change)
            self._scheduler.see(change)
        return changes

    def _commit(self, changes: Sequence[Change], *, is_carried: bool = False) -> int:
        """Write what was found or decided, and carry it into our own world, by way of the story if others wrote too."""
        if changes:
            position = self.store.commit(changes, by=WRITER, term=self._term)
            if position != self._world.position + len(changes):  # others wrote in between
                self._catch_up(changes if is_carried else ())
            else:
                if not is_carried:
                    self._carry(changes)
                self._world.position = position
        return len(changes)


def _ends(change: Change) -> TypeGuard[MoveAttempt]:
    return isinstance(change, MoveAttempt) and change.after is AttemptState.ENDED
