"""A trace through the real control loop: schedules worked out by hand, and the same decisions as a live server's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.clock import ManualClock
from stoker.core.changes import Ask, Change, Explain, MoveAttempt, MoveJob, Note, Open, Submit
from stoker.core.errors import BadSpec
from stoker.core.site import Backfill, Site
from stoker.core.states import AttemptState, Cause, ReplicaState
from stoker.engines.base import Request
from stoker.engines.fake import FakeEngine
from stoker.scheduling.settle import FIRST_BACKOFF_SECONDS
from stoker.simulate.engine import Costs
from stoker.simulate.failures import Failures, Outages
from stoker.simulate.run import Replay
from tests.builders import a_house
from tests.simulate.traces_by_hand import BLOCKED, EAGER, STRICT, ends, run

EASY, SKIP = Site(policy="fifo", backfill=Backfill.EASY), Site(policy="fifo", backfill=Backfill.SKIP)
PRIORITY = Site(policy="priority", preemption=EAGER)
URGENT = "low 0 1000 8, high 100 200 8 /900"


def test_first_come_first_served() -> None:
    assert ends(BLOCKED) == {"a": (0, 1000), "b": (1000, 1500), "c": (1500, 1600)}


def test_who_fits_may_go_ahead_if_the_site_says_so() -> None:
    assert ends(BLOCKED, site=SKIP) == {"a": (0, 1000), "b": (1000, 1500), "c": (20, 120)}


def test_easy_backfill_needs_to_know_run_times() -> None:
    """Nobody has ended yet, so nothing says that c would be gone before a; the oracle does."""
    assert ends(BLOCKED, site=EASY)["c"] == (1500, 1600)
    assert ends(BLOCKED, site=EASY, knows_run_times=True) == {"a": (0, 1000), "b": (1000, 1500), "c": (20, 120)}


def test_an_oracle_knows_who_is_shortest() -> None:
    jobs = "first 0 100 8, long 1 900 8, short 2 10 8"
    assert ends(jobs, site=Site(policy="srsf"))["short"][0] == 1000
    assert ends(jobs, site=Site(policy="srsf"), knows_run_times=True)["short"] == (100, 110)


def test_who_was_stopped_for_others_goes_on_from_its_checkpoint() -> None:
    """100 s done; stopped for 200 s; 30 s of restart; 900 s left."""
    assert ends(URGENT, site=PRIORITY) == {"low": (0, 1230), "high": (100, 300)}
    assert ends(URGENT, site=PRIORITY, costs=Costs(restart_seconds=30, lost_seconds=40))["low"] == (0, 1270)


def test_who_cannot_resume_begins_anew() -> None:
    found = run(URGENT, site=PRIORITY, resumable_share=0.0)
    assert {done.name: done.ended_at for done in found.runs} == {"low": 1330, "high": 300}
    assert [done.preemptions for done in found.runs] == [1, 0]


def test_a_share_of_the_jobs_resumes_the_same_ones_whatever_else_there_is() -> None:
    jobs = ", ".join(f"j{n} 0 10 1" for n in range(200))
    specs = {
        line.change.job.id: line.change.job.spec
        for line in run(jobs, resumable_share=0.25).story
        if _is_new(line.change)
    }
    again = run(jobs + ", k 0 10 1", resumable_share=0.25).story
    assert {line.change.job.id: line.change.job.spec for line in again if _is_new(line.change)}.items() >= specs.items()
    assert 30 < sum(spec.resumable for spec in specs.values()) < 70


def _is_new(change: Change) -> bool:
    return isinstance(change, Submit)


def failing(mean_seconds: float, repair_seconds: float = 100.0) -> Failures:
    return Failures(mean_seconds=mean_seconds, repair_seconds=repair_seconds)


def first_failure(failures: Failures, node: str, seed: int) -> float:
    return Outages(failures, [node], seed).next_at


def test_what_a_node_takes_with_it_goes_on_when_it_is_back() -> None:
    failures = failing(2000.0)
    at = first_failure(failures, "node-00000", 2)
    assert at < 1000
    found = run("a 0 1000 8", failures=failures, seed=2)
    (done,) = found.runs
    assert done.ended_at == pytest.approx(at + 100 + 30 + (1000 - at)) and (done.failures, done.preemptions) == (1, 0)


def test_it_goes_on_elsewhere_if_there_is_an_elsewhere() -> None:
    """A moment after the loss, as any job that lost its machine: the pause of the live loop."""
    failures = failing(2000.0, repair_seconds=1e6)
    at, other = (first_failure(failures, f"node-0000{n}", 2) for n in (0, 1))
    (done,) = run("a 0 1000 8", "2x8xV100", failures=failures, seed=2).runs
    assert other > 1031 and done.ended_at == pytest.approx(at + FIRST_BACKOFF_SECONDS + 30 + (1000 - at))


def test_without_a_checkpoint_everything_is_done_again() -> None:
    failures = failing(2000.0, repair_seconds=1e6)
    at = first_failure(failures, "node-00000", 2)
    (done,) = run("a 0 1000 8", "2x8xV100", failures=failures, seed=2, resumable_share=0.0).runs
    assert done.ended_at == pytest.approx(at + FIRST_BACKOFF_SECONDS + 30 + 1000)


def test_a_gang_falls_with_one_of_its_nodes() -> None:
    failures = failing(2000.0)
    at = first_failure(failures, "node-00000", 2)
    (done,) = run("a 0 1000 16", "2x8xV100", failures=failures, seed=2).runs
    assert done.failures >= 1 and done.ended_at >= at + 100 + 30


@pytest.mark.campaign
def test_a_job_that_always_loses_its_node_is_given_up_and_everything_ends() -> None:
    found = run("a 0 100000 8", failures=failing(20.0), resumable_share=0.0)
    assert not found.runs and found.unfinished == ["a"]


def test_every_policy_meets_the_same_failures() -> None:
    def downs(found: Replay) -> list[tuple[float, str]]:
        nodes = (line for line in found.story if type(line.change).__name__ == "NodeSeen")
        return [(line.at, line.change.node.name) for line in nodes if line.change.node.state == "DOWN"]  # type: ignore[union-attr]

    runs = [run(BLOCKED, "2x8xV100", site, failures=failing(2000.0), seed=5) for site in (STRICT, SKIP)]
    first, second = ({*downs(found)} for found in runs)
    last = min(max(line.at for line in found.story) for found in runs)
    assert {d for d in first if d[0] < last} == {d for d in second if d[0] < last} != set()


def test_outages_are_drawn_by_seed_and_name() -> None:
    found = Outages(failing(1000.0), [f"n{n}" for n in range(400)], 7)
    failed = found.pass_until(1000.0)
    assert 0.5 < len(failed) / 400 < 0.75  # 1 - 1/e
    assert Outages(failing(1000.0), [f"n{n}" for n in range(400)], 7).pass_until(1000.0) == failed
    assert Outages(failing(1000.0), [f"n{n}" for n in range(400)], 8).pass_until(1000.0) != failed


def test_jobs_that_no_node_could_hold_are_told_apart() -> None:
    found = run("a 0 10 4, huge 0 10 99")
    assert [job.name for job in found.refused] == ["huge"] and [done.name for done in found.runs] == ["a"]
    with pytest.raises(BadSpec, match="none of the 1 jobs"):
        run("huge 0 10 99")


# The same events give the same decisions, simulated or live


class PromptEngine(FakeEngine):
    """Up as soon as it is started, gone as soon as it is stopped."""

    def start(self, request: Request) -> None:
        """Every replica is up at once."""
        super().start(request)
        self.set(request.attempt, ReplicaState.UP)

    def stop(self, attempt: str, *, force: bool) -> None:
        """Nothing lingers."""
        super().stop(attempt, force=force)
        self.gone(attempt)


CROWD = ", ".join(f"j{n:02d} {n * 37 % 400} {50 + n * 61 % 900} {1 + n * 5 % 12} /{n * 7 % 3}" for n in range(40))


@pytest.mark.parametrize("policy", ["fifo", "priority", "las", "srsf"])
@pytest.mark.parametrize("backfill", list(Backfill))
def test_simulated_and_live_decide_the_same(policy: str, backfill: Backfill, tmp_path: Path) -> None:
    """A live control plane on a fake engine is driven by hand through the events of a replay."""
    options = {"first_gpu_hours": 0.1} if policy == "las" else {}
    site = Site(
        policy=policy, policy_options=options, backfill=backfill, preemption=replace(EAGER, quantum_seconds=30.0)
    )
    simulated = run(", ".join(sorted(CROWD.split(", "), key=lambda job: float(job.split()[1]))), "2x8xV100", site)
    engine = PromptEngine([replace(node, engine="fake") for node in simulated.nodes])
    house = a_house(tmp_path, engine=engine, clock=ManualClock(0.0), site=site)
    happens = [line for line in simulated.story if _is_from_outside(line.change)]
    last = max(line.at for line in simulated.story)
    while True:
        deadline = house.loop.next_deadline()
        moments = [line.at for line in happens[:1]] + ([deadline] if deadline is not None and deadline <= last else [])
        if not moments:
            break
        house.clock.time = max(house.clock.time, min(moments))
        while happens and happens[0].at <= house.clock.time:
            change = happens.pop(0).change
            if isinstance(change, Submit):
                live = replace(change.job, spec=replace(change.job.spec, kind="training"))
                house.store.commit([Submit(job=live)], by="trace")
            elif isinstance(change, Note):
                engine.set(change.attempt, ReplicaState.SUCCEEDED)
        house.loop.settle_down()
    live_decisions = [decided(line.change) for line in house.store.story() if line.by == "loop"]
    assert [d for d in live_decisions if d] == [d for d in map(decided, simulated.decisions) if d]
    assert len(simulated.runs) == 40 and (
        policy in ("fifo", "srsf") or any(_is_preempted(c) for c in simulated.decisions)
    )


def _is_from_outside(change: Change) -> bool:
    return isinstance(change, Submit) or (isinstance(change, Note) and change.seen is ReplicaState.SUCCEEDED)


def decided(change: Change) -> Change | None:
    """What the scheduler decided; None for what was seen. The engine's name is all that differs."""
    if isinstance(change, Open):
        return Open(attempt=replace(change.attempt, engine=""))
    return change if isinstance(change, Ask | Explain | MoveAttempt | MoveJob) else None


def _is_preempted(change: Change) -> bool:
    return isinstance(change, MoveAttempt) and change.after is AttemptState.STOPPING and change.cause is Cause.PREEMPTED
