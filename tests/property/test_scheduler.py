"""Whatever happens to a cluster, the scheduler keeps its promises after every step, and decides as one made anew would.

The promises: no device beyond its whole, gangs whole and in one zone, quotas kept, nobody stopped in vain or too soon or too
often, nothing left idle that the first in line could use, and nobody waits for ever.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stoker.core.changes import Ask, Cancel, Change, Explain, MoveAttempt, NodeGone, NodeSeen, Note, Open, Submit
from stoker.core.job import Job
from stoker.core.site import Backfill, Preemption, Queue, Quota, Site, Victims
from stoker.core.spec import ANY_ACCELERATOR, WHOLE_DEVICE_MILLI
from stoker.core.states import AttemptState, JobState, ReplicaState, Wish
from stoker.core.world import World, apply
from stoker.scheduling.decide import decide
from stoker.scheduling.free import Free
from stoker.scheduling.plan import Plan
from stoker.scheduling.rules import rules_of
from stoker.scheduling.scheduler import Scheduler
from stoker.scheduling.shapes import of_type
from stoker.scheduling.usage import amounts_of
from tests.builders import a_job, a_node

QUANTUM_SECONDS = 20.0
BUDGET = 2
COHORT = {
    "default": Queue(name="default"),
    "red": Queue(
        name="red",
        cohort="c",
        quotas={
            "T4": Quota(nominal_milli=3000, borrowing_milli=2000),
            "V100": Quota(nominal_milli=1000, borrowing_milli=0),
        },
    ),
    "blue": Queue(name="blue", cohort="c", weight=2.0, quotas={"T4": Quota(nominal_milli=3000, lending_milli=2000)}),
    "own": Queue(name="own", quotas={"GPU": Quota(nominal_milli=2500)}),
}
SITES = st.builds(
    lambda policy, placer, backfill, victims, share_by: Site(
        queues=COHORT,
        policy=policy,
        placer=placer,
        backfill=backfill,
        share_by=share_by,
        head_seconds=200.0,
        preemption=Preemption(victims=victims, quantum_seconds=QUANTUM_SECONDS, budget=BUDGET),
    ),
    st.sampled_from(["fifo", "priority", "las"]),
    st.sampled_from(["best-fit", "pack", "spread"]),
    st.sampled_from(Backfill),
    st.sampled_from(Victims),
    st.sampled_from(["queue", "user"]),
)


class Cluster(RuleBasedStateMachine):
    """Submit, cancel, let time pass, let replicas come up, end and fail, let nodes come and go; decide after each."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.node_numbers = itertools.count()
        self.now = 1_000_000.0
        self.world = World()

    @initialize(site=SITES, sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4))
    def begin(self, site: Site, sizes: list[int]) -> None:
        self.site, self.rules = site, rules_of(site)
        self.scheduler = Scheduler(self.rules)
        for n, gpus in enumerate(sizes):
            self.happen(
                NodeSeen(
                    node=a_node(f"n{n}", gpus, zone="za" if n % 3 else "zb", accelerator="T4" if n % 4 else "V100")
                )
            )

    def happen(self, *changes: Change) -> None:
        for change in changes:
            apply(self.world, change)
            self.scheduler.see(change)

    @rule(
        milli=st.sampled_from([0, 300, 500, 1000, 1000, 2000, 4000]),
        workers=st.integers(0, 2),
        queue=st.sampled_from(sorted(COHORT)),
        owner=st.sampled_from("ab"),
        priority=st.integers(0, 2),
        preemptible=st.booleans(),
        resumable=st.booleans(),
        types=st.sampled_from(["T4", "T4", "T4|V100", "V100", ANY_ACCELERATOR]),
    )
    def submit(
        self,
        milli: int,
        workers: int,
        queue: str,
        owner: str,
        priority: int,
        preemptible: bool,
        resumable: bool,
        types: str,
    ) -> None:
        self.count += 1
        job = a_job(
            f"j{self.count}",
            at=self.now,
            owner=owner,
            milli=milli,
            workers=workers,
            queue=queue,
            priority=priority,
            preemptible=preemptible,
            resumable=resumable,
            types=types,
        )
        self.happen(Submit(job=job))
        self.decide()

    @rule(seconds=st.sampled_from([0.01, 1.0, 15.0, 30.0, 700.0, 4000.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.decide()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.world.jobs:
            job = data.draw(st.sampled_from(sorted(self.world.jobs)))
            self.happen(Cancel(job=job, why="", at=self.now))
            self.decide()

    @rule(data=st.data(), state=st.sampled_from([ReplicaState.UP, ReplicaState.SUCCEEDED, ReplicaState.LOST]))
    def replicas_go_on(self, data: st.DataObject, state: ReplicaState) -> None:
        if self.world.attempts:
            self.note(data.draw(st.sampled_from(sorted(self.world.attempts))), state)
            self.decide()

    @rule()
    def all_come_up_and_the_stopped_are_gone(self) -> None:
        for attempt in sorted(self.world.attempts):
            stopping = self.world.attempts[attempt].state is AttemptState.STOPPING
            self.note(attempt, ReplicaState.LOST if stopping else ReplicaState.UP)
        self.decide()

    @rule(gpus=st.integers(0, 4), accelerator=st.sampled_from(["T4", "V100"]))
    def a_node_comes(self, gpus: int, accelerator: str) -> None:
        if len(self.world.nodes) < 6:
            self.happen(
                NodeSeen(node=a_node(f"x{next(self.node_numbers)}", gpus, accelerator=accelerator * bool(gpus)))
            )
            self.decide()

    @rule(data=st.data())
    def an_idle_node_goes(self, data: st.DataObject) -> None:
        busy = {place.node for attempt in self.world.attempts.values() for place in attempt.placements}
        idle = sorted(set(self.world.nodes) - busy)
        if idle:
            self.happen(NodeGone(name=data.draw(st.sampled_from(idle))))
            self.decide()

    def note(self, attempt: str, state: ReplicaState) -> None:
        for replica in self.world.attempts[attempt].replicas:
            note = Note(attempt=attempt, role=replica.role, index=replica.index, seen=state, at=self.now, exit_code=0)
            self.happen(note)

    def decide(self) -> None:
        """Rounds as the loop makes them, until nothing follows any more."""
        for _ in range(30):
            settled = self.scheduler.settle(self.world, self.now)
            assert settled == Scheduler(self.rules).settle(self.world, self.now)
            self.happen(*settled)
            expected = decisions(self.anew().decide(self.world, self.now))
            plan = self.scheduler.decide(self.world, self.now)
            assert decisions(plan) == expected, "what is kept between decisions changes none"
            self.check(plan)
            self.happen(*plan.changes)
            if not settled and not plan.changes:
                return
        raise AssertionError("it never comes to rest")

    def anew(self) -> Scheduler:
        """One that has kept nothing but what is promised."""
        made = Scheduler(self.rules, history=self.scheduler._history)
        made.order(self.world, self.now)  # it has read all that there is
        made.state.claims = dict(self.scheduler.state.claims)
        if not self.scheduler._nodes_changed:
            made.state.reservations = {
                job: r for job, r in self.scheduler.state.reservations.items() if self.waits(job)
            }
        return made

    def waits(self, job: str) -> bool:
        return job in self.world.jobs and self.world.jobs[job].state is JobState.QUEUED

    def check(self, plan: Plan) -> None:
        """What holds of one plan."""
        for change in plan.changes:
            if isinstance(change, Ask):
                attempt = self.world.attempts[change.attempt]
                victim = self.world.jobs[attempt.job]
                assert attempt.asked is None and attempt.state in (AttemptState.STARTING, AttemptState.RUNNING)
                if not self.borrows(victim):
                    assert self.now - attempt.placed_at >= QUANTUM_SECONDS
                    assert victim.preemptions < BUDGET
                    victims = self.site.preemption.victims
                    assert victim.spec.preemptible or victims is not Victims.NOBODY
                    assert victim.spec.gives_way or victims is Victims.ANY

    def borrows(self, job: Job) -> bool:
        return bool(self.rules.queue(job.spec.queue).cohort)

    @invariant()
    def no_device_is_held_beyond_its_whole(self) -> None:
        held: Counter[tuple[str, str]] = Counter()
        for attempt in self.world.attempts.values():
            machines = {g.role: g.machine for g in self.world.jobs[attempt.job].spec.groups}
            for place in attempt.placements:
                for device in place.devices:
                    held[place.node, device] += machines[place.role].milli_of_each
        assert all(milli <= WHOLE_DEVICE_MILLI for milli in held.values())

    @invariant()
    def gangs_are_whole_and_in_one_zone(self) -> None:
        for attempt in self.world.attempts.values():
            spec = self.world.jobs[attempt.job].spec
            assert len(attempt.placements) == spec.replicas
            zones = {self.world.nodes[p.node].zone for p in attempt.placements if p.devices}
            assert len(zones) <= 1

    @invariant()
    def quotas_are_kept(self) -> None:
        held: dict[str, Counter[str]] = {name: Counter() for name in COHORT}
        for attempt in self.world.attempts.values():
            spec = self.world.jobs[attempt.job].spec
            held[spec.queue].update(amounts_of(spec, attempt.placements, self.world.nodes))
        for name, queue in COHORT.items():
            for resource, quota in queue.quotas.items():
                most = quota.nominal_milli + (quota.borrowing_milli or 0 if queue.cohort else 0)
                if queue.cohort and quota.borrowing_milli is None:
                    most = 6000
                assert held[name][resource] <= most
        assert held["red"]["T4"] + held["blue"]["T4"] <= 6000
        assert held["red"]["T4"] <= 3000 + 2000

    @invariant()
    def who_waits_is_told_why(self) -> None:
        for job in self.world.jobs.values():
            if job.state is JobState.QUEUED and job.wish is Wish.RUN:
                assert job.waits is not None and job.waits.code and job.waits.text

    @invariant()
    def nothing_is_left_idle_that_fits_the_only_one(self) -> None:
        """Work conservation: one that waits alone, within its quota, with nobody about to stop, does not fit."""
        waiting = [j for j in self.world.jobs.values() if j.state is JobState.QUEUED and j.wish is Wish.RUN]
        stopping = any(a.state is AttemptState.STOPPING for a in self.world.attempts.values())
        if len(waiting) == 1 and not stopping and waiting[0].spec.queue == "default":
            (job,) = waiting
            if job.not_before <= self.now:
                assert self.rules.placer.place(job.id, job.spec, Free.of(self.world)) is None

    def teardown(self) -> None:
        """Faults cease: everything that some node could hold ends."""
        if not self.count:
            return
        for name, accelerator in (("big", "T4"), ("bigger", "V100")):
            self.happen(NodeSeen(node=a_node(name, 16, vcpus=1000.0, memory_gb=1000.0, accelerator=accelerator)))
        for _ in range(400):
            self.now += 30.0
            for attempt in sorted(self.world.attempts):
                stopping = self.world.attempts[attempt].state is AttemptState.STOPPING
                self.note(attempt, ReplicaState.LOST if stopping else ReplicaState.SUCCEEDED)
            self.decide()
            left = [j for j in self.world.jobs.values() if self.could_run(j)]
            if not left:
                return
        raise AssertionError(f"these never end: {[(j.id, j.state, j.waits) for j in left]}")

    def could_run(self, job: Job) -> bool:
        """On one type of accelerator at least."""
        queue, usage = self.rules.queue(job.spec.queue), self.scheduler.state.usage
        ways = [of_type(job.spec, name) for name in ("T4", "V100")]
        wants = job.spec.groups[0].machine.accelerator_choices
        return any(
            usage.ever_exceeds(queue, amounts_of(way)) is None
            for name, way in zip(("T4", "V100"), ways, strict=True)
            if not job.spec.accelerator_milli or not wants or name in wants
        )


def decisions(plan: Plan) -> list[Change]:
    """What a plan does; reasons apart, which are told when one is looked at."""
    return [change for change in plan.changes if not isinstance(change, Explain)]


class TestScheduler(Cluster.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


def test_a_plan_does_not_depend_on_the_order_of_rows() -> None:
    nodes = [a_node(f"n{n}", n % 5) for n in range(8)]
    jobs = [a_job(f"j{n}", at=float(n % 3), gpus=n % 4, workers=n % 2, priority=n % 2) for n in range(30)]

    def plan(turn: int) -> list[Change]:
        world = World(
            jobs={j.id: j for j in jobs[turn:] + jobs[:turn]}, nodes={n.name: n for n in nodes[turn:] + nodes[:turn]}
        )
        return decisions(decide(world, 100.0, rules_of(Site())))

    assert plan(0) == plan(3) == plan(7)
    assert [c for c in plan(0) if isinstance(c, Open)]


class Little:
    """A World and its scheduler, for one short story."""

    def __init__(self, site: Site, *first: Change) -> None:
        self.world, self.scheduler = World(), Scheduler(rules_of(site))
        self.happen(*first)

    def happen(self, *changes: Change) -> None:
        for change in changes:
            apply(self.world, change)
            self.scheduler.see(change)

    def decide(self, now: float) -> tuple[Change, ...]:
        """One round: what follows from what was seen, and who is next."""
        settled = self.scheduler.settle(self.world, now)
        self.happen(*settled)
        decided = self.scheduler.decide(self.world, now).changes
        self.happen(*decided)
        return (*settled, *decided)

    def settle(self, now: float) -> list[str]:
        """Rounds in which everybody comes up and the stopped are gone, until nothing follows. Returns who was asked to stop."""
        asked: list[str] = []
        for _ in range(20):
            for attempt in list(self.world.attempts.values()):
                seen = ReplicaState.LOST if attempt.state is AttemptState.STOPPING else ReplicaState.UP
                for r in attempt.replicas:
                    self.happen(Note(attempt=attempt.id, role=r.role, index=r.index, seen=seen, at=now))
            changes = self.decide(now)
            asked += [change.attempt for change in changes if isinstance(change, Ask)]
            if not changes:
                return asked
        raise AssertionError("it never comes to rest")


def test_a_big_gang_is_overtaken_for_so_long_and_no_longer() -> None:
    """Small jobs come without end and one gang wants the whole node: with `skip`, the head's time bounds its wait."""
    site = Site(policy="fifo", backfill=Backfill.SKIP, head_seconds=100.0)
    story = Little(site, NodeSeen(node=a_node("n0", 4)))
    now, started = 0.0, None
    running: dict[str, float] = {}
    for step in range(60):
        now = 10.0 * step
        name = "big" if step == 3 else f"s{step}"
        story.happen(Submit(job=a_job(name, at=now, gpus=4 if name == "big" else 1)))
        for _ in range(10):
            for attempt in list(story.world.attempts.values()):
                ended = now >= running.get(attempt.id, now + 1)
                seen = ReplicaState.SUCCEEDED if ended else ReplicaState.UP
                story.happen(Note(attempt=attempt.id, role="chief", index=0, seen=seen, at=now, exit_code=0))
            changes = story.decide(now)
            for change in changes:
                if isinstance(change, Open):
                    running[change.attempt.id] = now + 35.0
                    if change.attempt.job == "p/big":
                        started = now
            if not changes:
                break
        if started is not None:
            break
    assert started is not None and started <= 30.0 + 100.0 + 35.0 + 10.0


def test_nobody_is_stopped_in_vain() -> None:
    """One of two nodes is held by one that may not be stopped: no gang over both can come in, so nobody goes."""
    site = Site(policy="priority", preemption=Preemption(victims=Victims.RESUMABLE, quantum_seconds=0.0))
    story = Little(site)
    story.happen(NodeSeen(node=a_node("n0", 2)), NodeSeen(node=a_node("n1", 2)))
    story.happen(Submit(job=a_job("soft", at=0.0, gpus=2, resumable=True)), Submit(job=a_job("hard", at=1.0, gpus=2)))
    story.decide(2.0)
    for attempt in list(story.world.attempts):
        story.happen(Note(attempt=attempt, role="chief", index=0, seen=ReplicaState.UP, at=3.0))
    story.decide(4.0)
    assert len(story.world.attempts) == 2
    story.happen(Submit(job=a_job("gang", at=5.0, gpus=2, workers=1, priority=9)))
    assert not [c for c in story.decide(6.0) if isinstance(c, Ask | MoveAttempt)]
    story.happen(Submit(job=replace(a_job("one", at=7.0, gpus=2, priority=10))))
    asked = [c.attempt for c in story.decide(8.0) if isinstance(c, Ask)]
    assert asked == ["p/soft.1"]


def test_one_that_was_stopped_does_not_take_its_own_place_back() -> None:
    """It was submitted long ago, so with its age it stands before the one for which it was stopped."""
    site = Site(policy="priority", preemption=Preemption(victims=Victims.RESUMABLE, quantum_seconds=0.0))
    story = Little(site)
    story.happen(NodeSeen(node=a_node("n0", 2)), Submit(job=a_job("old", at=0.0, gpus=2, resumable=True)))
    story.settle(1.0)
    story.happen(Submit(job=a_job("urgent", at=36_000.0, gpus=2, priority=5)))
    story.settle(36_001.0)
    assert set(story.world.attempt_of) == {"p/urgent"}
    assert story.world.jobs["p/old"].preemptions == 1


def test_one_that_was_just_stopped_may_have_others_stopped_later() -> None:
    """At the instant of its own stop it asks for nobody; that nobody was found then must not be remembered."""
    site = Site(policy="priority", preemption=Preemption(victims=Victims.RESUMABLE, quantum_seconds=0.0))
    story = Little(site)
    story.happen(NodeSeen(node=a_node("n0", 2)), NodeSeen(node=a_node("n1", 3, vcpus=20.0)))
    story.happen(Submit(job=a_job("middle", at=0.0, gpus=2, priority=2, resumable=True)))
    story.happen(Submit(job=a_job("low", at=0.0, gpus=3, priority=1, resumable=True)))
    story.settle(1.0)
    story.happen(Submit(job=a_job("high", at=10.0, gpus=2, vcpus=50.0, priority=9)))  # only n0 has so many
    story.settle(10.0)
    assert set(story.world.attempt_of) == {"p/high", "p/low"}
    story.happen(Submit(job=a_job("other", at=20.0, gpus=2)))
    story.settle(20.0)
    assert "p/middle" in story.world.attempt_of and "p/low" not in story.world.attempt_of


def test_one_that_has_just_been_stopped_is_looked_at_again_an_instant_later() -> None:
    """Under a policy that asks for no patience it asks for nobody at the very instant of its stop, and right after it does."""
    site = Site(policy="priority", backfill=Backfill.SKIP, preemption=Preemption(quantum_seconds=600.0))
    story = Little(site)
    story.happen(NodeSeen(node=a_node("n0", 2)), NodeSeen(node=a_node("n1", 2)))
    for name, gpus, priority in (("x", 2, 5), ("z1", 1, 1), ("z2", 1, 1)):
        story.happen(Submit(job=a_job(name, at=0.0, gpus=gpus, priority=priority, resumable=True)))
    story.settle(0.0)
    story.happen(Submit(job=a_job("y", at=10_000.0, gpus=2, priority=9)))
    assert story.settle(10_000.0) == ["p/x.1"]
    soon = story.scheduler.next_deadline()
    assert soon is not None and soon < 10_000.01
    assert story.settle(soon) == ["p/z1.1", "p/z2.1"]
