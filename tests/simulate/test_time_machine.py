"""A site's own past under other rules, worked out by hand."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace
from typing import Any

import pytest

from stoker.core.errors import BadSpec, NotFound
from stoker.core.site import Backfill, Preemption, Queue, Quota, Site
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.past import Past, changed, past, without_nodes
from stoker.simulate.time_machine import missing_queues, replay_twice
from stoker.simulate.time_machine_report import answer, report

STRICT = Site(policy="fifo", backfill=Backfill.STRICT)
SKIP = replace(STRICT, backfill=Backfill.SKIP)
ZERO = 1_700_000_000.0


def a_row(name: str, at: float, run: float, gpus: int, end: float | None, **fields: Any) -> dict[str, Any]:
    """A job as the server tells it."""
    group = {
        "role": "chief",
        "count": 1,
        "vcpus": 1.0,
        "memory_gb": 1.0,
        "accelerator": "T4",
        "accelerator_milli": 1000 * gpus,
    }
    row = {
        "id": f"p/{name}",
        "owner": "ada",
        "queue": "default",
        "priority": 0,
        "preemptible": False,
        "resumable": False,
        "region": "",
        "state": "SUCCEEDED",
        "submitted_at": ZERO + at,
        "started_at": ZERO + at,
        "ended_at": None if end is None else ZERO + end,
        "held_seconds": run,
        "preemptions": 0,
        "failures": 0,
        "groups": [group],
    }
    return {**row, **fields}


def a_past(*rows: dict[str, Any], site: Site = STRICT, nodes: int = 1) -> Past:
    """What a site of nodes with eight T4 tells."""
    node = {
        "region": "",
        "zone": "z",
        "rack": "",
        "accelerator": "T4",
        "accelerators": 8,
        "vcpus": 64.0,
        "memory_gb": 64.0,
        "soft": False,
    }
    told = {
        "now": ZERO + 1e6,
        "site": asdict(site),
        "nodes": [{"name": f"n{n}", **node} for n in range(nodes)],
        "jobs": list(rows),
        "is_whole": True,
    }
    return past(json.loads(json.dumps(told)))


BLOCKED = (
    a_row("a", 0, 1000, 4, 1000),
    a_row("b", 10, 500, 8, 1510, owner="bob"),  # in fact it waited 10 s longer than a replay says
    a_row("c", 20, 100, 4, 1610, owner="eve"),
)


def test_who_gains_and_who_loses() -> None:
    """Strict: c ends at 1600. With skip: at 120; nobody loses."""
    before = a_past(*BLOCKED)
    found = replay_twice(before, SKIP, before.nodes)
    ends = {shift.past.job.id: (shift.ended_before, shift.ended_after) for shift in found.shifts}
    assert ends == {"p/a": (1000, 1000), "p/b": (1500, 1500), "p/c": (1600, 120)}
    assert {share.name: (share.jobs, share.wait_before, share.wait_after) for share in found.users} == {
        "ada": (1, 0, 0),
        "bob": (1, 990, 990),
        "eve": (1, 1480, 0),
    }
    (queue,) = found.queues
    assert (queue.jobs, queue.finish_before, queue.finish_after) == (3, 1600, 1500)
    assert queue.gpu_hours == pytest.approx((4000 + 4000 + 400) / 3600)
    gain, lose = found.extremes()
    assert [shift.past.job.id for shift in gain] == ["p/c"] and lose == []
    back = replay_twice(replace(before, site=SKIP), STRICT, before.nodes).extremes()
    assert [shift.past.job.id for shift in back[1]] == ["p/c"] and back[0] == []


def test_it_tells_how_far_it_is_to_be_believed() -> None:
    calibration = replay_twice(a_past(*BLOCKED), SKIP, a_past(*BLOCKED).nodes).calibration
    assert calibration is not None and calibration.jobs == 3
    assert calibration.real_wait == pytest.approx((0 + 1000 + 1490) / 3)
    assert calibration.replayed_wait == pytest.approx((0 + 990 + 1480) / 3) and calibration.median_miss == 10


def test_what_still_runs_counts_as_far_as_it_has_come() -> None:
    running = a_row("a", 0, 1000, 4, None, state="ACTIVE")
    found = replay_twice(a_past(running), SKIP, a_past(running).nodes)
    assert found.calibration is None and [shift.ended_before for shift in found.shifts] == [1000]


def test_what_never_ran_is_left_out_and_counted() -> None:
    found = a_past(*BLOCKED, a_row("d", 30, 0, 8, None, state="QUEUED"))
    assert len(found.jobs) == 3 and sum(found.left_out.values()) == 1
    with pytest.raises(NotFound, match="nothing to replay"):
        a_past(a_row("d", 30, 0, 8, None, state="QUEUED"))
    with pytest.raises(NotFound, match="nothing to replay"):
        a_past()


def test_more_machines_and_fewer() -> None:
    before = a_past(*BLOCKED)
    more = changed(before.nodes, nodes_of_text("1x8xT4"), "")
    assert [node.vcpus for node in more] == [64, 64]  # what is not known is as on its like
    found = replay_twice(before, before.site, more)
    assert {shift.past.job.id: shift.ended_after for shift in found.shifts} == {"p/a": 1000, "p/b": 510, "p/c": 120}
    less = a_past(*BLOCKED, nodes=2)
    assert [node.name for node in without_nodes(less.nodes, "n0")] == ["n1"]
    assert [node.name for node in without_nodes(less.nodes, "1x8xt4")] == ["n0"]
    for text in ("n7", "3x8xT4", "1x4xT4"):
        with pytest.raises(NotFound, match="cannot remove"):
            without_nodes(less.nodes, text)
    with pytest.raises(NotFound, match="no accelerator 'T9'"):
        changed(before.nodes, nodes_of_text("1x8xT9"), "")


def test_jobs_that_would_fit_nowhere_are_named() -> None:
    before = a_past(*BLOCKED, nodes=2)
    small = changed(before.nodes, nodes_of_text("2x4xT4"), "2x8xT4")
    found = replay_twice(before, before.site, small)
    assert found.fits_not_after == ["p/b"] and len(found.shifts) == 2
    told = answer(before, before.site, small, found)
    assert told["no_longer_fit"] == ["p/b"] and told["left_out"] == {"fit on no node of the new cluster": 1}
    with pytest.raises(BadSpec, match="none of the 3 jobs"):
        replay_twice(before, before.site, changed(before.nodes, nodes_of_text("1x2xT4"), "n0,n1"))


def test_jobs_that_never_end_for_want_of_quota_are_counted() -> None:
    limited = Queue(name="default", quotas={"T4": Quota(nominal_milli=4000)})
    before = a_past(*BLOCKED)
    new = replace(STRICT, queues={"default": limited})
    found = replay_twice(before, new, before.nodes)
    assert answer(before, new, before.nodes, found)["left_out"] == {"never end in one of the replays": 1}


def test_queues_that_are_no_more_are_told() -> None:
    site = replace(STRICT, queues={name: Queue(name=name) for name in ("default", "team")})
    before = a_past(a_row("a", 0, 10, 1, 10, queue="team"), site=site)
    assert missing_queues(before, STRICT) == {"team": 1} and missing_queues(before, site) == {}


def test_stopping_for_others_costs_what_the_site_says() -> None:
    site = replace(STRICT, policy="priority", preemption=Preemption(quantum_seconds=0.0, cost_seconds=50.0))
    before = a_past(a_row("low", 0, 1000, 8, 1000, resumable=True), a_row("high", 100, 200, 8, 1200, priority=900))
    found = replay_twice(before, site, before.nodes)
    assert found.preemptions_after in (0, 1)
    found = replay_twice(replace(before, site=site), site, before.nodes)
    ends = {shift.past.job.id: shift.ended_after for shift in found.shifts}
    assert found.preemptions_after == 1 and ends == {"p/low": 1250, "p/high": 300}


def test_a_page_says_all_of_it() -> None:
    before = a_past(*BLOCKED, a_row("d<script>", 30, 50, 1, 2000, owner="<b>&"))
    found = replay_twice(before, SKIP, before.nodes)
    told = answer(before, SKIP, before.nodes, found)
    text = report(told, found.before, found.after)
    page = " ".join("".join(ElementTree.fromstring(text).itertext()).split())
    assert "<script" not in text and "<b>&" in page and "d<script>" in page
    for word in ("eve", "bob", "Gain most", "24m40s less", *told["assumptions"]):
        assert word in page
    assert json.loads(json.dumps(told))["calibration"]["jobs"] == 4
