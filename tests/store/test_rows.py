"""Every kind of change goes to JSON and back."""

from __future__ import annotations

from typing import get_args

import pytest

from stoker.core.changes import (
    Ask,
    Cancel,
    Change,
    CordonNode,
    Credit,
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
    Release,
    Submit,
    UncordonNode,
)
from stoker.core.job import Ordered, Reason
from stoker.core.node import Cordon
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.store.rows import decode_change, encode
from tests.builders import a_job, a_node
from tests.contract.store_contract import an_attempt

EACH: list[Change] = [
    Submit(job=a_job(gpus=4, workers=9, ps=3)),
    Cancel(job="p/j", why="ä\n\x00", at=1.5),
    Release(job="p/j"),
    Relabel(job="p/j", labels={"k": "v"}, if_revision=3),
    Forget(job="p/j"),
    Note(attempt="p/j.1", role="ps", index=2, seen=ReplicaState.FAILED, at=1e9, exit_code=0, addresses=("a:1", "b:2")),
    NodeSeen(node=a_node("n", 4, zone="z", virtual=True)),
    NodeGone(name="n"),
    CordonNode(node="n", cordon=Cordon(why="ä", by="u", at=1.0, empty_at=2.5)),
    UncordonNode(node="n"),
    NodeFailed(node="n", job="p/j", at=1.0, what="w"),
    Open(attempt=an_attempt()),
    Ask(attempt="p/j.1", cause=Cause.DRAINED),
    MoveAttempt(
        attempt="p/j.1", before=AttemptState.PLACED, after=AttemptState.STOPPING, at=1.0, cause=Cause.CANCELLED
    ),
    MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.QUEUED, at=2.0, message="m", counted=1, not_before=3.0),
    OrderMachines(job="p/j", ordered=Ordered(machines=(("t4", 3),), zone="z", at=1.5, came_at=2.5)),
    Credit(job="p/j", seconds=12.5, until=3.5, at=9.0),
    Explain(job="p/j", reason=Reason(code="C", text="t", action="a")),
]


@pytest.mark.parametrize("change", EACH, ids=lambda change: type(change).__name__)
def test_there_and_back(change: Change) -> None:
    assert decode_change(type(change).__name__, encode(change)) == change


def test_each_kind_is_here() -> None:
    assert {type(change) for change in EACH} == set(get_args(Change))
