"""The control loop: what is seen, what follows, what is done, and round again. One thread; nobody else moves a state."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from stoker.clock import Clock
from stoker.core.changes import Change, MoveAttempt
from stoker.core.errors import StokerError
from stoker.core.states import AttemptState
from stoker.core.world import World, apply
from stoker.engines.base import Engine
from stoker.scheduling.base import Placer, Policy
from stoker.scheduling.decide import decide
from stoker.scheduling.due import due
from stoker.scheduling.settle import next_deadline
from stoker.store.base import Store
from stoker.store.logs import Logs

from .enact import Enact
from .observe import observe_nodes, observe_replicas

LOOK_SECONDS = 1.0
"""How often live attempts are looked at when nobody rings: a replica whose end was reported is seen at once."""

IDLE_SECONDS = 30.0
LONG_ROUND_SECONDS = 0.02
LONGEST_BREATH_SECONDS = 0.25
_MOST_ROUNDS = 50
_log = logging.getLogger("stoker.loop")


@dataclass(slots=True, kw_only=True)
class Loop:
    """The loop, with what it drives."""

    store: Store
    logs: Logs
    engines: Mapping[str, Engine]
    policy: Policy
    placer: Placer
    enact: Enact
    clock: Clock
    hold: bool = False
    _world: World = field(default_factory=World)
    _bell: threading.Event = field(default_factory=threading.Event)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def tick(self) -> int:
        """One round. Returns how many changes it wrote."""
        written = 0
        self._bell.clear()  # what rings from here on is news; our own writes of the last round were not
        self._catch_up()
        now = self.clock.now()
        # 1. What is seen.
        nodes = observe_nodes(self.engines, self._world)
        written += self._commit([*nodes, *observe_replicas(self.engines, self._world, self.logs, now)])
        # 2. What follows.
        plan = decide(self._world, now, self.policy, self.placer, hold=self.hold)
        ended = [self._world.attempts[change.attempt] for change in plan.changes if _ends(change)]
        written += self._commit(plan.changes)
        # 3. What is done.
        written += self._commit(self.enact(due(self._world, now), self._world, now))
        for attempt in ended:
            if attempt.engine in self.engines:
                self.engines[attempt.engine].forget(attempt.id)
        return written

    def settle_down(self) -> None:
        """Tick until nothing follows any more from what is seen now."""
        for _ in range(_MOST_ROUNDS):
            if not self.tick():
                return
        _log.warning("%d rounds without rest; going on at the next look", _MOST_ROUNDS)

    def start(self) -> None:
        """Run in a thread of its own until `stop`."""
        self.store.listen(lambda _: self._bell.set())
        self._world = self.store.world()
        self._thread = threading.Thread(target=self._run, name="control-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs now."""
        self._stopping = True
        self._bell.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        failed = False
        while not self._stopping:
            try:
                if failed:
                    self._world = self.store.world()  # whatever the failed round left half done in ours
                started = time.monotonic()
                self.settle_down()
                failed = False
                self._breathe(time.monotonic() - started)
            except Exception as error:
                failed = True
                if isinstance(error, StokerError):
                    _log.error("a round of the control loop failed and is repeated: %s", error)
                else:
                    _log.exception("a round of the control loop failed and is repeated")
            self._bell.wait(LOOK_SECONDS if failed else self._pause())

    @staticmethod
    def _breathe(took_seconds: float) -> None:
        """After long rounds, leave the machine to those who submit: with much to decide, deciding more often decides no more."""
        if took_seconds > LONG_ROUND_SECONDS:
            time.sleep(min(LONGEST_BREATH_SECONDS, 3 * took_seconds))

    def _pause(self) -> float:
        if self._world.attempts:
            return LOOK_SECONDS
        deadline = next_deadline(self._world)
        return IDLE_SECONDS if deadline is None else min(IDLE_SECONDS, max(0.01, deadline - self.clock.now()))

    def _catch_up(self) -> None:
        for line in self.store.story(after=self._world.position):
            apply(self._world, line.change)
            self._world.position = line.n

    def _commit(self, changes: Sequence[Change]) -> int:
        """Write what was found or decided, and carry it into our own world, by way of the story if others wrote too."""
        if changes:
            position = self.store.commit(changes, by="loop")
            if position == self._world.position + len(changes):  # nobody else wrote in between
                for change in changes:
                    apply(self._world, change)
                self._world.position = position
            else:
                self._catch_up()
        return len(changes)


def _ends(change: Change) -> TypeGuard[MoveAttempt]:
    return isinstance(change, MoveAttempt) and change.after is AttemptState.ENDED
