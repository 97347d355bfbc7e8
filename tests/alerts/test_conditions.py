"""What holds on the site for a while."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.alerts.conditions import Condition, Conditions, begun
from stoker.clock import ManualClock
from stoker.core.alerts import Alert
from stoker.core.changes import MoveAttempt, NodeSeen, Note, Open, Submit
from stoker.core.job import Attempt, Placement, Replica
from stoker.core.node import Node
from stoker.core.site import Budget, Site
from stoker.core.states import AttemptState, ReplicaState
from stoker.insight.idle import Idle
from stoker.insight.live_world import LiveWorld
from stoker.store.logs import STEPS, Logs
from stoker.store.memory import MemoryStore
from tests.builders import a_job

GPU = "GPU-0"


class House:
    """A site with one job of Ada's that runs: a chief on a GPU, and a worker."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.clock, self.folder = clock, folder
        self.store, self.logs = MemoryStore(clock), Logs(folder / "logs")
        self.idle: dict[str, Idle] = {}
        self.budgets: dict[str, Budget] = {}
        self.free, self.total = 500e9, 1000e9
        places = (
            Placement(role="chief", index=0, node="n0", devices=(GPU,)),
            Placement(role="worker", index=0, node="n0"),
        )
        self.attempt = Attempt(
            id="p/j.1",
            job="p/j",
            number=1,
            engine="fake",
            placements=places,
            placed_at=clock.now(),
            replicas=tuple(Replica(role=place.role, index=place.index) for place in places),
            ordered_usd_per_hour=10.0,
        )

    def run(self) -> None:
        """Let the job run from now on."""
        now = self.clock.now()
        node = Node(name="n0", engine="fake", accelerator="T4", devices=(GPU,), vcpus=8.0, memory_gb=8.0)
        job = a_job(workers=1, gpus=1, owner="ada", at=now)
        up = [
            Note(attempt="p/j.1", role=place.role, index=0, seen=ReplicaState.UP, at=now)
            for place in self.attempt.placements
        ]
        moves = [(AttemptState.PLACED, AttemptState.STARTING), (AttemptState.STARTING, AttemptState.RUNNING)]
        self.store.commit(
            [
                NodeSeen(node=node),
                Submit(job=job),
                Open(attempt=replace(self.attempt, placed_at=now)),
                *up,
                *(MoveAttempt(attempt="p/j.1", before=before, after=after, at=now) for before, after in moves),
            ],
            by="loop",
        )

    def conditions(self, disk: Callable[[Path], tuple[int, int]] | None = None) -> Conditions:
        return Conditions(
            store=self.store,
            live=LiveWorld(self.store),
            logs=self.logs,
            site=Site(budgets=self.budgets),
            clock=self.clock,
            home=self.folder,
            reserve_mb=64.0,
            idle=lambda: self.idle,
            disk=disk or (lambda folder: (int(self.free), int(self.total))),
        )

    def look(self, *wanted: str, marks: Collection[str] = ()) -> list[Condition]:
        return self.conditions().look(wanted, marks)


@pytest.fixture
def site(tmp_path: Path, clock: ManualClock) -> Iterator[House]:
    yield House(tmp_path, clock)


def test_nobody_asks_and_nothing_is_looked_at(site: House) -> None:
    site.free = 0
    assert site.look() == [] == site.look("job-failed")


@pytest.mark.parametrize(
    ("free", "total", "is_low"),
    [(51e9, 1000e9, False), (49e9, 1000e9, True), (100e6, 1e9, True), (129e6, 1e9, False), (127e6, 1e9, True)],
)
def test_a_disk_is_low_below_a_share_or_twice_the_reserve(site: House, free: float, total: float, is_low: bool) -> None:
    site.free, site.total = free, total
    found = site.look("disk-low")
    assert [(c.key, c.alert.subject) for c in found] == [("disk-low", str(site.folder))] * is_low


def test_what_cannot_be_looked_at_goes_on(site: House, caplog: pytest.LogCaptureFixture) -> None:
    def gone(folder: Path) -> tuple[int, int]:
        raise FileNotFoundError(2, "No such file")

    conditions = site.conditions(gone)
    for _ in range(2):
        assert [c.key for c in conditions.look(["disk-low"], {"disk-low", "disk-lower x"})] == ["disk-low"]
        assert conditions.look(["disk-low"], ()) == []
    assert len(caplog.records) == 1, "said once"


def test_who_leads(site: House) -> None:
    assert site.look("leader-changed") == []
    site.store.lead("http://a:1")
    (first,) = site.look("leader-changed")
    assert first.key == "leader-changed 1" and first.alert.title == "The server at http://a:1 leads now"
    site.store.lead("http://b:2")
    (second,) = site.look("leader-changed")
    assert begun([first], []) == [] and begun([second], [first.key]) == [second] and begun([first], [first.key]) == []


@pytest.mark.parametrize(("hours", "percents"), [(7.9, []), (8.1, ["80"]), (10.1, ["80", "100"])])
def test_a_budget_of_the_month(site: House, hours: float, percents: list[str]) -> None:
    site.budgets = {"p": Budget(usd_per_month=100.0), "q": Budget(usd_per_month=1.0)}
    site.run()
    site.clock.advance(hours * 3600)
    found = site.look("budget-80", "budget-100")
    assert [(c.key, c.alert.event) for c in found] == [
        (f"budget-{percent} p 1970-01", f"budget-{percent}") for percent in percents
    ]
    assert site.look("budget-100") == [c for c in found if c.alert.event == "budget-100"]
    if percents:
        assert found[0].alert.title == f"Project p has spent {10 * hours:.0f} % of its budget of 1970-01"


def test_a_budget_that_nobody_has_is_not_counted(site: House) -> None:
    site.budgets = {"p": Budget(usd_per_hour=1.0)}
    site.run()
    site.clock.advance(1e6)
    assert site.look("budget-80", "budget-100") == []


def test_what_is_spent_is_counted_now_and_then(site: House) -> None:
    site.budgets = {"default": Budget(usd_per_month=10.0)}
    site.run()
    conditions = site.conditions()
    assert conditions.look(["budget-100"], ()) == []
    site.clock.advance(3700)
    assert len(conditions.look(["budget-100"], ())) == 1
    site.budgets["default"] = Budget()
    site.clock.advance(10)
    assert len(conditions.look(["budget-100"], ())) == 1


def steps(seconds: float, at: float) -> str:
    told = {
        "t": at,
        "step": 20,
        "steps": 10,
        "seconds": 10 * seconds,
        "longest": seconds,
        "waited": 0.0,
        "together": 0.0,
    }
    return json.dumps(told)


def test_a_slow_replica_is_told_of_once_for_an_attempt(site: House) -> None:
    site.run()
    assert site.look("slow-replica") == []
    for replica, seconds in (("chief-0", 0.1), ("worker-0", 0.2)):
        line = {"n": 1, "t": site.clock.now(), "s": STEPS, "m": steps(seconds, site.clock.now())}
        site.logs.append("p/j.1", replica, [line])
    (found,) = site.look("slow-replica")
    assert (found.key, found.alert.subject, found.alert.owner) == ("slow-replica p/j.1", "p/j", "ada")
    assert "worker-0 takes 200 ms" in found.alert.text and found.alert.title == "p/j waits for a slow replica"


def test_a_job_whose_gpus_are_idle_is_told_of_with_what_follows(site: House) -> None:
    site.run()
    assert site.look("idle-gpu") == []
    now = site.clock.now()
    idle = Idle(job="p/j", since=now - 1800.0, gpus=1, stops_at=now + 900.0, kept_until=0.0)
    site.idle = {"p/j": idle, "p/other": replace(idle, job="p/other")}
    (found,) = site.look("idle-gpu")
    assert (found.key, found.alert.subject, found.alert.owner) == ("idle-gpu p/j.1", "p/j", "ada")
    assert "nothing for 30 minutes; it is stopped in 15 minutes" in found.alert.text
    site.idle = {"p/j": replace(idle, stops_at=None)}
    (found,) = site.look("idle-gpu")
    assert "stopped" not in found.alert.text


def test_what_is_new_is_what_had_no_mark() -> None:
    one, other = (
        Condition(key=key, alert=Alert(event="disk-low", subject=key, at=1.0, title=key)) for key in ("a", "b")
    )
    assert begun([one, other], {"a", "c"}) == [other]
