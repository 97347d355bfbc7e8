"""What holds on the site for a while, and is told when it begins: looked at again and again, for no line of the story says it."""

from __future__ import annotations

import logging
import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from stoker.clock import Clock
from stoker.core.alerts import Alert
from stoker.core.ids import split_job_id
from stoker.core.job import Attempt
from stoker.core.site import Site
from stoker.core.states import AttemptState
from stoker.insight.bills import bills
from stoker.insight.findings.evidence import Evidence
from stoker.insight.findings.of_steps import is_slow
from stoker.insight.idle import Idle
from stoker.insight.live_world import LiveWorld
from stoker.insight.training_steps import progress_of
from stoker.scheduling.spending import month_start
from stoker.store.base import Store
from stoker.store.logs import STEPS, Logs

LOW_SHARE = 0.05
"""Of the disk, that is to be free."""

_STEPS_BYTES = 1 << 17  # the last half minute of a few hundred replicas
_BUDGET_SECONDS = 300.0
_log = logging.getLogger("stoker.alerts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that holds now. It is told once for each key, as long as it goes on."""

    key: str
    alert: Alert


def _disk(folder: Path) -> tuple[int, int]:
    found = shutil.disk_usage(folder)
    return found.free, found.total


@dataclass(slots=True, kw_only=True)
class Conditions:
    """Looks at the site. What it looks at is what some rule wants to know."""

    store: Store
    live: LiveWorld
    logs: Logs
    site: Site
    clock: Clock
    home: Path
    reserve_mb: float
    idle: Callable[[], Mapping[str, Idle]] = dict
    disk: Callable[[Path], tuple[int, int]] = _disk  # bytes that are free, and bytes in all
    _budgets: tuple[float, list[Condition]] = field(default=(-math.inf, []))
    _said: dict[str, str] = field(default_factory=dict)  # what went wrong, by event

    def look(self, wanted: Collection[str], marks: Collection[str]) -> list[Condition]:
        """What holds of these events. `marks`: what held before; where one cannot be looked at now, it goes on."""
        found: list[Condition] = []
        for event, look in self._table().items():
            if event not in wanted:
                continue
            try:
                found += look()
                self._said.pop(event, None)
            except Exception as error:  # whatever it is: the others are looked at, and this one again
                found += [_gone_on(key, self.clock.now()) for key in marks if key.partition(" ")[0] == event]
                if self._said.get(event) != str(error):
                    _log.error("alerts: %s cannot be looked at: %s", event, error)
                self._said[event] = str(error)
        return found

    def _table(self) -> Mapping[str, Callable[[], list[Condition]]]:
        return {
            "slow-replica": lambda: list(self._slow_replicas()),
            "idle-gpu": lambda: list(self._idle_gpus()),
            "budget-80": lambda: [found for found in self._spent() if found.alert.event == "budget-80"],
            "budget-100": lambda: [found for found in self._spent() if found.alert.event == "budget-100"],
            "disk-low": lambda: list(self._low_disk()),
            "leader-changed": lambda: list(self._leader()),
        }

    def _running(self) -> list[tuple[Attempt, str]]:
        """The attempts that run, each with the owner of its job."""
        with self.live.look() as world:
            return [
                (attempt, world.jobs[attempt.job].owner)
                for attempt in world.attempts.values()
                if attempt.state is AttemptState.RUNNING
            ]

    def _slow_replicas(self) -> Iterator[Condition]:
        for attempt, owner in self._running():
            if len(attempt.placements) < 2:
                continue
            lines = self.logs.aside(attempt.job, STEPS, last_bytes=_STEPS_BYTES)
            told = ((line.replica, line.text) for line in lines if line.attempt == attempt.id)
            for finding in is_slow(Evidence(training=progress_of(told))):
                yield Condition(
                    key=f"slow-replica {attempt.id}",
                    alert=Alert(
                        event="slow-replica",
                        subject=attempt.job,
                        at=self.clock.now(),
                        title=f"{attempt.job} waits for a slow replica",
                        text=f"{finding.text}; {finding.action}",
                        job=attempt.job,
                        owner=owner,
                    ),
                )

    def _idle_gpus(self) -> Iterator[Condition]:
        idle = self.idle()
        for attempt, owner in self._running():
            found = idle.get(attempt.job)
            if found is not None:
                now = self.clock.now()
                stops = (
                    ""
                    if found.stops_at is None
                    else f"; it is stopped in {max(0.0, found.stops_at - now) / 60:.0f} minutes"
                )
                yield Condition(
                    key=f"idle-gpu {attempt.id}",
                    alert=Alert(
                        event="idle-gpu",
                        subject=attempt.job,
                        at=now,
                        title=f"The GPUs of {attempt.job} are idle",
                        text=f"They did nothing for {(now - found.since) / 60:.0f} minutes{stops}; stoker keep lets it keep them",
                        job=attempt.job,
                        owner=owner,
                    ),
                )

    def _spent(self) -> list[Condition]:
        """Of projects with a budget of the month. It reads what all jobs of the month held, so it is done now and then."""
        now = self.clock.now()
        looked_at, found = self._budgets
        if now - looked_at >= _BUDGET_SECONDS:
            found = list(self._count_spent(now)) if any(b.usd_per_month for b in self.site.budgets.values()) else []
            self._budgets = now, found
        return found

    def _count_spent(self, now: float) -> Iterator[Condition]:
        begin = month_start(now)
        month = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m")
        spent = defaultdict[str, float](float)
        for bill in bills(self.store.held_since(begin), begin, now):
            spent[split_job_id(bill.job)[0]] += bill.ordered_usd
        for project, usd in sorted(spent.items()):
            most = self.site.budget(project).usd_per_month
            for percent in (80, 100):
                if most and usd >= most * percent / 100:
                    yield Condition(
                        key=f"budget-{percent} {project} {month}",
                        alert=Alert(
                            event=f"budget-{percent}",
                            subject=f"{project} {month}",
                            at=now,
                            title=f"Project {project} has spent {100 * usd / most:.0f} % of its budget of {month}",
                            text=f"{usd:.2f} of {most:.2f} US dollars, on machines that were ordered",
                        ),
                    )

    def _low_disk(self) -> Iterator[Condition]:
        free, total = self.disk(self.home)
        if free < max(LOW_SHARE * total, 2e6 * self.reserve_mb):
            yield Condition(
                key="disk-low",
                alert=Alert(
                    event="disk-low",
                    subject=str(self.home),
                    at=self.clock.now(),
                    title=f"The disk of {self.home} has {free / 1e9:.1f} GB free",
                    text=f"Below {self.reserve_mb:.0f} MB new jobs are refused, and what runs goes on. Free some space there.",
                ),
            )

    def _leader(self) -> Iterator[Condition]:
        leader = self.store.leader()
        if leader is not None:
            yield Condition(
                key=f"leader-changed {leader.term}",
                alert=Alert(
                    event="leader-changed",
                    subject="lead",
                    at=leader.since,
                    title=f"The server at {leader.who} leads now",
                    text=f"This is term {leader.term}: so often a server has taken the lead",
                ),
            )


def begun(found: Collection[Condition], marks: Collection[str]) -> list[Condition]:
    """Those that were not there before. That a leader has changed is known only to who knew the one before."""
    new = [condition for condition in found if condition.key not in marks]
    knew_leader = any(key.startswith("leader-changed ") for key in marks)
    return [condition for condition in new if knew_leader or condition.alert.event != "leader-changed"]


def _gone_on(key: str, now: float) -> Condition:
    """One that held, and cannot be looked at."""
    event, _, subject = key.partition(" ")
    return Condition(key=key, alert=Alert(event=event, subject=subject, at=now, title=subject))
