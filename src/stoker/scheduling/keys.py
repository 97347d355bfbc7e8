"""The keys of jobs that wait: worked out anew, now and then, where they change while a job waits."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stoker.core.job import Job

from .base import Facts, Key, Shift
from .history import History
from .rules import Rules
from .waiting import Waiting

REKEY_SECONDS = 60.0
"""So often at the most keys are outdated."""


class Keys:
    """Outdates keys once a minute, and works them out as of that moment: at once, or when it is a job's turn.

    A key that by time alone only grows (`Shift.UPWARD`) can wait for that turn, as an older one is a lower bound.
    """

    def __init__(self, rules: Rules, history: History, waiting: Waiting, jobs: Mapping[str, Job]) -> None:
        """`jobs`: the live ones by id, as they are now."""
        self._rules = rules
        self._history = history
        self._waiting = waiting
        self._jobs = jobs
        self._shifts = {policy.shifts for policy in (rules.policy, *rules.policies.values())}
        self._outdated_at = 0.0
        self._may_be_less: dict[str, None] = {}  # jobs whose key is worked out at once next time
        history.hazards.before_change = self._before_change

    def of(self, job: Job, now: float) -> Key:
        """The key of a job that begins to wait."""
        return self._rules.policy_of(job.spec.queue).key(Facts(job, None, now, self._history))

    def outdate(self, now: float) -> None:
        """Let keys be worked out as of now, if it is time for that."""
        if self._shifts == {Shift.NEVER} or now < self._outdated_at + REKEY_SECONDS:
            return
        self._outdated_at = now
        self._waiting.outdate()
        for job in list(self._waiting) if Shift.ANYHOW in self._shifts else self._may_be_less:
            if job in self._waiting:
                self.work_out(job)
        self._may_be_less.clear()

    def work_out(self, job: str) -> None:
        """The key of one that waits, as of when keys were outdated."""
        self._waiting.rekey(job, self.of(self._jobs[job], self._outdated_at))

    def _before_change(self, jobs: Collection[str]) -> None:
        """What their keys depend on is about to change: now they can still be had as of then."""
        if Shift.UPWARD in self._shifts:
            for job in jobs:
                if job in self._waiting:
                    self._may_be_less[job] = None
                    if self._waiting.is_outdated(job):
                        self.work_out(job)
