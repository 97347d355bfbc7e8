"""The control plane for an hour of virtual time, with a database and jobs that come and go: what of memory stays behind.

The same loop, store, logs and scheduler as a live server's, on an engine in memory that forgets what it is told to forget.
From the tenth minute on, when everything has been used once, what lives is counted every ten minutes (tracemalloc, after a
collection), and the process is looked at (RSS).
"""

from __future__ import annotations

import gc
import heapq
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import psutil

from stoker.clock import ManualClock
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import Loop
from stoker.core.changes import Submit
from stoker.core.ids import attempt_id, job_id
from stoker.core.job import Job, Request
from stoker.core.site import Site
from stoker.core.spec import Group, JobSpec, Machine, Program
from stoker.core.states import ReplicaState
from stoker.engines.fake import FakeEngine
from stoker.engines.virtual import declared_nodes
from stoker.insight.live_world import LiveWorld
from stoker.kinds.training import Training
from stoker.scheduling.rules import rules_of
from stoker.store.files import Files
from stoker.store.logs import Logs
from stoker.store.sql import SqlStore

from .measure import Row

RUNS = 1
MINUTES = 60
_EVERY_SECONDS = 4.0  # a job is submitted
_RUN_SECONDS = 300.0
_LINES = 20
_LOGS_REMEMBERED = 100  # fewer than there will be, so that what a log takes does not look like a leak
_WARM_MINUTES = 10


class ForgetfulEngine(FakeEngine):
    """Keeps nothing of an attempt that is over."""

    def forget(self, attempt: str) -> None:
        """For good."""
        self._gangs.pop(attempt, None)
        self.started.clear()


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    for _ in range(runs):
        alive, resident, jobs = live_for(MINUTES)
        yield Row(what=f"jobs that came and went in {MINUTES} virtual minutes", unit="jobs", samples=[float(jobs)])
        yield Row(what=f"objects alive, from minute {_WARM_MINUTES} on", unit="MB", samples=alive)
        yield Row(what="  more at the end than then", unit="MB", samples=[alive[-1] - alive[0]])
        yield Row(what=f"RSS, from minute {_WARM_MINUTES} on", unit="MB", samples=resident)
        yield Row(what="  more at the end than then", unit="MB", samples=[resident[-1] - resident[0]])


def live_for(minutes: int) -> tuple[list[float], list[float], int]:
    """MB of objects and of the process at every tenth minute, and how many jobs there were."""
    alive: list[float] = []
    resident: list[float] = []
    process = psutil.Process()
    with tempfile.TemporaryDirectory(prefix="stoker-hour-") as folder:
        plane = Plane(Path(folder))
        for minute in range(1, minutes + 1):
            plane.minute()
            if minute == _WARM_MINUTES:
                tracemalloc.start()
            if minute > _WARM_MINUTES and minute % 10 == 0:
                gc.collect()
                alive.append(tracemalloc.get_traced_memory()[0] / 1e6)
                resident.append(process.memory_info().rss / 1e6)
        tracemalloc.stop()
        plane.store.close()
    return alive, resident, plane.submitted


class Plane:
    """The control plane, with jobs that come and go."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(1e9)
        self.store = SqlStore(folder / "stoker.db", self.clock)
        self.engine = ForgetfulEngine(declared_nodes("100x4xT4", "fake"))
        self.logs = Logs(folder / "logs", self.clock, most_remembered=_LOGS_REMEMBERED)
        self.live = LiveWorld(self.store)
        self.submitted = 0
        self._ends: list[tuple[float, str]] = []
        engines = {"fake": self.engine}
        self.loop = Loop(
            store=self.store,
            logs=self.logs,
            engines=engines,
            rules=rules_of(Site()),
            enact=Enact(
                engines=engines,
                kinds={"training": Training()},
                files=Files(folder / "buckets", buckets={}, keep_buckets_here=True),
                runtimes=Runtimes(default="python", by_version={}),
            ),
            clock=self.clock,
        )

    def minute(self) -> None:
        """Sixty seconds: jobs come, others end, everybody looks."""
        for _ in range(int(60 / _EVERY_SECONDS)):
            self.clock.advance(_EVERY_SECONDS)
            self._submit()
            self.loop.settle_down()
            self._end_those_due()
            self.loop.settle_down()
            with self.live.look() as world:
                assert len(world.jobs) < 10 * _RUN_SECONDS / _EVERY_SECONDS, "jobs pile up"

    def _submit(self) -> None:
        name = f"job_{self.submitted}"
        gpu = self.engine.nodes()[0].accelerator
        machine = Machine(vcpus=1.0, memory_gb=1.0, accelerator=gpu, accelerator_milli=1000)
        spec = JobSpec(
            program=Program(command=("true",)),
            groups=(Group(role="chief", count=1, machine=machine),),
            region="us-central1",
        )
        sent = Request(dialect="bench", body="{}")
        now = self.clock.now()
        job = Job(id=job_id("p", name), spec=spec, request=sent, owner="u", submitted_at=now)
        self.store.commit([Submit(job=job)], by="u")
        heapq.heappush(self._ends, (now + _RUN_SECONDS, attempt_id(job.id, 1)))
        self.submitted += 1

    def _end_those_due(self) -> None:
        for attempt in self.engine.started:
            self.engine.set(attempt, ReplicaState.UP)
        self.engine.started.clear()
        while self._ends and self._ends[0][0] <= self.clock.now():
            _, attempt = heapq.heappop(self._ends)
            lines = [{"n": n + 1, "t": self.clock.now(), "s": "out", "m": f"line {n}"} for n in range(_LINES)]
            self.logs.append(attempt, "chief-0", lines)
            self.engine.set(attempt, ReplicaState.SUCCEEDED)
