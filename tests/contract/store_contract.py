"""What every store must do."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from stoker.core.changes import (
    Cancel,
    CordonNode,
    Explain,
    Forget,
    MoveAttempt,
    MoveJob,
    NodeFailed,
    NodeGone,
    NodeSeen,
    Note,
    Open,
    OrderMachines,
    Relabel,
    Submit,
    UncordonNode,
)
from stoker.core.errors import AlreadyExists, Conflict, Deposed, IllegalMove, NotFound
from stoker.core.job import Attempt, Ordered, Placement, Reason, Replica, Request
from stoker.core.node import Cordon, Fault, NodeRecord
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState, ShownState
from stoker.core.world import World, apply
from stoker.store.base import Store, Which
from tests.builders import a_job, a_node


def an_attempt(job: str = "p/j", number: int = 1, device: str = "0") -> Attempt:
    return Attempt(
        id=f"{job}.{number}",
        job=job,
        number=number,
        engine="fake",
        placements=(Placement(role="chief", index=0, node="n0", devices=(device,)),),
        placed_at=1.0,
        replicas=(Replica(role="chief", index=0),),
    )


class StoreContract:
    """Subclass it and give a fixture `store`."""

    def test_what_was_committed_is_read_back_equal(self, store: Store) -> None:
        job = replace(a_job(gpus=2, workers=3, ps=1), labels={"a": "1"})
        store.commit([Submit(job=job)], by="u")
        assert store.job("p/j").job == job
        assert store.world().jobs == {"p/j": job}

    def test_a_taken_id_is_refused_and_nothing_of_the_batch_is_written(self, store: Store) -> None:
        store.commit([Submit(job=a_job())], by="u")
        position = store.position()
        with pytest.raises(AlreadyExists):
            store.commit([Submit(job=a_job("other")), Submit(job=a_job())], by="u")
        assert store.position() == position
        with pytest.raises(NotFound):
            store.job("p/other")

    def test_changes_of_nothing_are_refused(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.commit([Cancel(job="p/none", why="", at=1.0)], by="u")
        with pytest.raises(NotFound):
            store.attempt("p/none.1")

    def test_a_move_is_guarded(self, store: Store) -> None:
        store.commit([Submit(job=a_job())], by="u")
        with pytest.raises(IllegalMove):
            store.commit([MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.FAILED, at=1.0)], by="loop")
        assert store.job("p/j").job.state is JobState.QUEUED

    def test_one_live_attempt_per_job(self, store: Store) -> None:
        store.commit([Submit(job=a_job()), Open(attempt=an_attempt())], by="u")
        assert store.attempt("p/j.1") == an_attempt()
        with pytest.raises(IllegalMove):
            store.commit([Open(attempt=an_attempt(number=2, device="1"))], by="loop")

    def test_a_device_is_never_held_twice_and_free_when_the_attempt_has_ended(self, store: Store) -> None:
        jobs = [Submit(job=a_job(gpus=2)), Submit(job=a_job("k", gpus=2))]
        store.commit([*jobs, Open(attempt=an_attempt())], by="u")
        with pytest.raises(IllegalMove):
            store.commit([Open(attempt=an_attempt("p/k"))], by="loop")
        assert store.job("p/k").job.state is JobState.QUEUED
        self._end(store, "p/j.1")
        store.commit([Open(attempt=an_attempt("p/k"))], by="loop")
        assert store.job("p/k").job.state is JobState.ACTIVE

    def test_shares_of_a_device_are_held_up_to_the_whole(self, store: Store) -> None:
        shares = {"j": 500, "k": 600, "l": 400, "m": 100}
        store.commit([Submit(job=a_job(name, milli=milli)) for name, milli in shares.items()], by="u")
        store.commit([Open(attempt=an_attempt("p/j"))], by="loop")
        with pytest.raises(IllegalMove):
            store.commit([Open(attempt=an_attempt("p/k"))], by="loop")
        store.commit([Open(attempt=an_attempt("p/l")), Open(attempt=an_attempt("p/m"))], by="loop")
        self._end(store, "p/l.1")
        with pytest.raises(IllegalMove):
            store.commit([Open(attempt=an_attempt("p/k"))], by="loop")
        self._end(store, "p/j.1")
        store.commit([Open(attempt=an_attempt("p/k"))], by="loop")

    def test_one_batch_may_end_an_attempt_and_open_the_next_on_its_devices(self, store: Store) -> None:
        store.commit([Submit(job=a_job(gpus=2)), Submit(job=a_job("k", gpus=2)), Open(attempt=an_attempt())], by="u")
        running = [
            Note(attempt="p/j.1", role="chief", index=0, seen=ReplicaState.UP, at=1.0),
            MoveAttempt(attempt="p/j.1", before=AttemptState.PLACED, after=AttemptState.STARTING, at=1.0),
            MoveAttempt(attempt="p/j.1", before=AttemptState.STARTING, after=AttemptState.RUNNING, at=1.0),
        ]
        ended = [
            MoveAttempt(
                attempt="p/j.1", before=AttemptState.RUNNING, after=AttemptState.STOPPING, at=2.0, cause=Cause.PREEMPTED
            ),
            MoveAttempt(attempt="p/j.1", before=AttemptState.STOPPING, after=AttemptState.ENDED, at=2.0),
            MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.QUEUED, at=2.0, preempted=1),
        ]
        both = [Open(attempt=an_attempt("p/k")), Open(attempt=an_attempt(number=2, device="1"))]
        with pytest.raises(IllegalMove):
            store.commit([*running, *ended, *both, Open(attempt=an_attempt(number=3, device="2"))], by="loop")
        assert store.job("p/j").job.started_at is None, "nothing of it is written"
        store.commit([*running, *ended, *both], by="loop")
        job = store.job("p/j").job
        assert (job.state, job.started_at, job.preemptions, job.tries) == (JobState.ACTIVE, 1.0, 1, 2)
        assert [a.state for a in store.attempts("p/j")] == [AttemptState.ENDED, AttemptState.PLACED]
        assert set(store.world().attempts) == {"p/j.2", "p/k.1"}

    def test_ended_jobs_are_found_by_when_they_ended(self, store: Store) -> None:
        for n, name in enumerate(("c", "a", "b"), start=1):
            store.commit([Submit(job=a_job(name))], by="u")
            ended = MoveJob(job=f"p/{name}", before=JobState.QUEUED, after=JobState.CANCELLED, at=float(n))
            store.commit([ended], by="loop")
        store.commit([Submit(job=a_job("lives"))], by="u")
        assert [job.id for job in store.ended(0.0, 10)] == ["p/c", "p/a", "p/b"]
        assert [job.id for job in store.ended(2.0, 10)] == ["p/a", "p/b"]
        assert [job.id for job in store.ended(0.0, 1)] == ["p/b"]

    def test_the_world_holds_the_living_and_history_stays(self, store: Store) -> None:
        store.commit([Submit(job=a_job()), Open(attempt=an_attempt())], by="u")
        self._end(store, "p/j.1")
        store.commit([MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.SUCCEEDED, at=2.0)], by="loop")
        world = store.world()
        assert not world.jobs and not world.attempts
        assert store.job("p/j").job.state is JobState.SUCCEEDED
        assert [a.state for a in store.attempts("p/j")] == [AttemptState.ENDED]

    def test_a_world_that_follows_the_story_is_the_world(self, store: Store) -> None:
        follower = World()
        store.commit([NodeSeen(node=a_node("n0", 4)), NodeSeen(node=a_node("n1")), Submit(job=a_job())], by="u")
        store.commit([Submit(job=a_job("k")), Open(attempt=an_attempt()), NodeGone(name="n1")], by="loop")
        store.commit([Explain(job="p/k", reason=Reason(code="NO_ROOM", text="t", action="a"))], by="loop")
        note = Note(attempt="p/j.1", role="chief", index=0, seen=ReplicaState.UP, at=3.0, addresses=("h:1",))
        store.commit([note, Cancel(job="p/k", why="w", at=4.0), Relabel(job="p/j", labels={"x": "y"})], by="u")
        for line in store.story():
            apply(follower, line.change)
            follower.position = line.n
        assert follower == store.world()

    def test_the_story_is_in_order_and_has_no_gaps(self, store: Store) -> None:
        store.commit([Submit(job=a_job())], by="u")
        store.commit([Cancel(job="p/j", why="w", at=1.0), NodeSeen(node=a_node("n0"))], by="v")
        lines = list(store.story())
        assert [(line.n, line.by, line.job) for line in lines] == [(1, "u", "p/j"), (2, "v", "p/j"), (3, "v", "")]
        assert [line.n for line in store.story(after=1)] == [2, 3]
        assert [line.n for line in store.story("p/j", after=0, limit=1)] == [1]
        assert [type(line.change) for line in store.story("p/j")] == [Submit, Cancel]

    def test_lists_are_newest_first_and_page(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            store.commit([Submit(job=a_job(name))], by="u")
        store.commit([Submit(job=replace(a_job(), id="other/j"))], by="u")
        first = store.jobs("p", limit=2)
        assert [listed.job.id for listed in first] == ["p/c", "p/b"]
        assert [listed.job.id for listed in store.jobs("p", before=first[-1].n)] == ["p/a"]
        assert store.jobs("nobody") == []

    def test_lists_hold_what_was_asked_for(self, store: Store) -> None:
        for name, dialect in (("rnn_1", "a"), ("rnn_2", "b"), ("cnn", "a"), ("rnn_3", "a")):
            store.commit(
                [Submit(job=replace(a_job(name), request=Request(dialect=dialect, body="{}")))],
                by="u",
            )
        store.commit([Open(attempt=an_attempt("p/cnn"))], by="loop")
        store.commit([MoveJob(job="p/rnn_1", before=JobState.QUEUED, after=JobState.FAILED, at=1.0)], by="loop")

        def found(**which: Any) -> list[str]:
            return [listed.job.id for listed in store.jobs("p", which=Which(**which))]

        assert found() == ["p/rnn_3", "p/cnn", "p/rnn_2", "p/rnn_1"]
        assert found(dialect="b") == ["p/rnn_2"]
        assert found(prefix="rnn_") == ["p/rnn_3", "p/rnn_2", "p/rnn_1"]
        assert found(prefix="rnn%") == []
        assert found(states=frozenset({JobState.QUEUED, JobState.ACTIVE})) == ["p/rnn_3", "p/cnn", "p/rnn_2"]
        assert found(states=frozenset({JobState.FAILED}), dialect="a", prefix="rnn") == ["p/rnn_1"]
        assert found(states=frozenset()) == []
        assert [listed.attempt for listed in store.jobs("p", limit=2)] == [None, an_attempt("p/cnn")]

    def test_a_forgotten_job_is_found_no_more_and_its_id_stays_taken(self, store: Store) -> None:
        store.commit([Submit(job=a_job()), Submit(job=a_job("k"))], by="u")
        with pytest.raises(IllegalMove):
            store.commit([Forget(job="p/j")], by="u")  # it has not ended
        store.commit([MoveJob(job="p/j", before=JobState.QUEUED, after=JobState.CANCELLED, at=1.0)], by="loop")
        store.commit([Forget(job="p/j")], by="u")
        with pytest.raises(NotFound):
            store.job("p/j")
        with pytest.raises(NotFound):
            store.commit([Relabel(job="p/j", labels={})], by="u")
        assert [listed.job.id for listed in store.jobs("p")] == ["p/k"]
        with pytest.raises(AlreadyExists):
            store.commit([Submit(job=a_job())], by="u")

    def test_what_it_never_heard_of_is_told_from_what_has_ended_or_is_forgotten(self, store: Store) -> None:
        assert store.last_moment() == 0.0
        store.commit([Submit(job=a_job("j")), Open(attempt=an_attempt("p/j"))], by="u")
        store.commit(
            [
                Submit(job=a_job("gone")),
                MoveJob(job="p/gone", before=JobState.QUEUED, after=JobState.CANCELLED, at=1.0),
                Forget(job="p/gone"),
            ],
            by="u",
        )
        many = [f"p/other{n}" for n in range(1200)]
        assert store.unknown_jobs(["p/j", "p/gone", *many]) == set(many)
        assert store.unknown_attempts(["p/j.1", "p/j.2", "p/k.1"]) == {"p/j.2", "p/k.1"}
        assert store.unknown_jobs([]) == set() == store.unknown_attempts(())
        assert store.last_moment() == list(store.story())[-1].at > 0

    def test_nodes_are_what_was_last_seen_of_them(self, store: Store) -> None:
        assert store.nodes() == []
        store.commit([NodeSeen(node=a_node("n0", 4)), NodeSeen(node=a_node("n1"))], by="loop")
        assert {node.name for node in store.nodes()} == {"n0", "n1"}
        store.commit([NodeSeen(node=a_node("n0", 2)), NodeGone(name="n1")], by="loop")
        assert store.nodes() == [a_node("n0", 2)]

    def test_what_is_kept_of_a_node_outlives_its_absence(self, store: Store) -> None:
        cordon = Cordon(why="new driver", by="u", at=1.0, empty_at=5.0)
        store.commit([NodeSeen(node=a_node("n0")), CordonNode(node="n0", cordon=cordon), NodeGone(name="n0")], by="u")
        store.commit([NodeFailed(node="n0", job="p/j", at=2.0, what="w")], by="loop")
        store.commit([NodeSeen(node=a_node("n0"))], by="loop")
        fault = Fault(job="p/j", at=2.0, what="w")
        assert store.world().records == {"n0": NodeRecord(node="n0", cordon=cordon, faults=(fault,))}
        assert store.world().leaving == {"n0": 5.0}
        store.commit([UncordonNode(node="n0")], by="u")
        assert store.world().records == store.world().leaving == {}

    def test_who_has_held_machines_since(self, store: Store) -> None:
        store.commit([NodeSeen(node=a_node("n0", 4)), Submit(job=a_job()), Submit(job=a_job("k"))], by="u")
        store.commit([Open(attempt=an_attempt()), Open(attempt=an_attempt("p/k", device="1"))], by="loop")
        assert [(job.id, attempt.id) for job, attempt in store.held_since(5.0)] == [("p/j", "p/j.1"), ("p/k", "p/k.1")]
        stopping, ended = AttemptState.STOPPING, AttemptState.ENDED
        store.commit(
            [
                MoveAttempt(attempt="p/j.1", before=AttemptState.PLACED, after=stopping, at=6.0, cause=Cause.COMPLETED),
                MoveAttempt(attempt="p/j.1", before=stopping, after=ended, at=7.0),
                MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.SUCCEEDED, at=7.0),
            ],
            by="loop",
        )
        assert [attempt.id for _, attempt in store.held_since(6.9)] == ["p/j.1", "p/k.1"]
        assert [(job.state, attempt.ended_at) for job, attempt in store.held_since(7.0)] == [(JobState.ACTIVE, None)]

    def test_machines_that_are_ordered_are_written_at_the_job(self, store: Store) -> None:
        store.commit([NodeSeen(node=a_node("n0", 4)), Submit(job=a_job())], by="u")
        ordered = Ordered(machines=(("t4", 2),), zone="z", at=5.0, came_at=5.0)
        store.commit([OrderMachines(job="p/j", ordered=ordered)], by="loop")
        assert store.job("p/j").job.ordered == store.world().jobs["p/j"].ordered == ordered
        assert store.job("p/j").state is ShownState.PREPARING
        store.commit([Open(attempt=an_attempt())], by="loop")
        assert store.job("p/j").job.ordered is None
        store.commit([OrderMachines(job="p/j", ordered=ordered)], by="loop")  # too late: it has its places
        assert store.job("p/j").job.ordered is None

    def test_a_label_change_is_guarded_by_the_revision(self, store: Store) -> None:
        store.commit([Submit(job=a_job())], by="u")
        revision = store.job("p/j").job.revision
        store.commit([Relabel(job="p/j", labels={"a": "1"}, if_revision=revision)], by="u")
        with pytest.raises(Conflict):
            store.commit([Relabel(job="p/j", labels={}, if_revision=revision)], by="u")
        assert store.job("p/j").job.labels == {"a": "1"}

    def test_whoever_listens_hears_of_every_commit(self, store: Store) -> None:
        heard: list[int] = []
        store.listen(heard.append)
        position = store.commit([Submit(job=a_job())], by="u")
        assert heard[-1] == position == store.position()

    def test_what_an_earlier_term_decides_is_refused(self, store: Store) -> None:
        assert store.leader() is None
        store.commit([Submit(job=a_job())], by="u")
        first = store.lead("http://a:1")
        store.commit([Explain(job="p/j", reason=Reason(code="NO_ROOM", text="t", action="a"))], by="loop", term=first)
        second = store.lead("http://b:2")
        position, leader = store.position(), store.leader()
        assert leader is not None and (leader.who, leader.term) == ("http://b:2", second) and second > first
        with pytest.raises(Deposed):
            store.commit([Open(attempt=an_attempt())], by="loop", term=first)
        assert store.position() == position
        store.commit([Open(attempt=an_attempt())], by="loop", term=second)
        store.commit([Cancel(job="p/j", why="w", at=1.0)], by="u")  # what users want is of no term

    def test_many_threads_lose_nothing(self, store: Store) -> None:
        def submit(thread: int) -> None:
            for n in range(20):
                store.commit([Submit(job=a_job(f"t{thread}_{n}"))], by="u")

        threads = [threading.Thread(target=submit, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.world().jobs) == 160
        assert [line.n for line in store.story()] == list(range(1, 161))

    def test_of_many_who_want_one_id_one_gets_it(self, store: Store) -> None:
        refused: list[Exception] = []

        def submit() -> None:
            try:
                store.commit([Submit(job=a_job())], by="u")
            except AlreadyExists as error:
                refused.append(error)

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 7

    @staticmethod
    def _end(store: Store, attempt: str) -> None:
        for before, after, cause in (
            (AttemptState.PLACED, AttemptState.STOPPING, Cause.COMPLETED),
            (AttemptState.STOPPING, AttemptState.ENDED, None),
        ):
            store.commit([MoveAttempt(attempt=attempt, before=before, after=after, at=2.0, cause=cause)], by="loop")
