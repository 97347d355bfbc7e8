"""What went on over time: allocation, waiting, and GPUs that are idle and of no use."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.core.node import Node, NodeState
from stoker.core.site import Backfill, Site
from stoker.simulate.cluster import nodes_of_text
from stoker.simulate.fragments import Fragments, typical_of
from stoker.simulate.step_function import Steps
from stoker.simulate.timeline import Timeline, timeline
from tests.builders import a_job, a_spec, an_attempt
from tests.simulate.traces_by_hand import BLOCKED, run


def test_steps_hold_until_they_change() -> None:
    steps = Steps()
    steps.add(0.0, 2.0)
    steps.add(10.0, -1.0)
    steps.add(10.0, 3.0)
    assert steps.means(np.array([0.0, 5.0, 15.0, 25.0])).tolist() == [2.0, 3.0, 4.0]
    assert steps.means(np.array([0.0, 25.0])).tolist() == [(20 + 60) / 25]
    assert Steps().means(np.array([0.0, 1.0])).tolist() == [0.0]


def test_before_its_first_change_it_is_nothing() -> None:
    steps = Steps()
    steps.add(10.0, 4.0)
    assert steps.means(np.array([0.0, 20.0])).tolist() == [2.0]


def told(text: str, nodes: str = "1x8xV100", stretches: int = 4, **queues: str) -> Timeline:
    found = run(text, nodes, Site(policy="fifo", backfill=Backfill.STRICT))
    gpus = sum(len(node.devices) for node in found.nodes)
    end = max(done.ended_at for done in found.runs)
    names = {f"trace/{job}": queue for job, queue in queues.items()}
    return timeline(found.story, names, gpus, end, stretches=stretches)


def test_allocation_and_waiting_by_hand() -> None:
    """a: 4 GPUs to 1000; b: 8 to 1500; c: 4 to 1600; b waits 990, c 1480."""
    found = told(BLOCKED, a="x", b="x", c="y")
    assert found.edges_seconds == [0, 400, 800, 1200, 1600]
    assert found.allocated_share == pytest.approx([0.5, 0.5, (200 * 0.5 + 200) / 400, (300 + 100 * 0.5) / 400])
    assert found.waiting_jobs == pytest.approx([(390 + 380) / 400, 2, (200 + 400) / 400, 300 / 400])
    assert found.mean_allocated_share == pytest.approx((4 * 1000 + 8 * 500 + 4 * 100) / 8 / 1600)
    assert found.queue_gpus["y"] == pytest.approx([0, 0, 0, 1]) and found.queue_gpus["x"][0] == pytest.approx(4)


def test_idle_gpus_that_typical_jobs_cannot_use() -> None:
    """Of two kinds of jobs one wants 8 GPUs: while a holds 4 of 8, to half of the jobs the other 4 are useless."""
    found = told("a 0 100 4, b 0 100 8", stretches=2)
    assert found.unusable_share == pytest.approx([0.25, 0.0])
    assert found.mean_fragmentation == pytest.approx(0.5)


def test_what_is_of_no_use_by_hand() -> None:
    small, large, share = a_spec(1, vcpus=0.1), a_spec(4, vcpus=0.1), a_spec(milli=500, vcpus=0.1)
    typical = typical_of([small, small, large, share, a_spec()])  # the last wants none: it does not count
    assert [(t.machine.accelerator_milli, t.share) for t in typical] == [(1000, 0.5), (4000, 0.25), (500, 0.25)]
    fragments = Fragments(typical)
    node = Node(name="n0", engine="fake", accelerator="T4", devices=("0", "1", "2", "3"), vcpus=64, memory_gb=64)
    assert fragments.see(node) == (4.0, 0.0)
    job = a_job(milli=500, vcpus=0.1)
    attempt = an_attempt(job, placed_at=0)
    machines = {group.role: group.machine for group in job.spec.groups}
    idle, unusable = fragments.move(attempt, machines, -1)
    assert idle == -0.5
    assert unusable == pytest.approx(0.5 * 0.5 + 0.25 * 3.5)  # half a device is too small; four devices are not there
    assert fragments.move(attempt, machines, 1) == (0.5, -unusable)


def test_what_a_node_lacks_in_anything_else_or_is_of_another_type_is_of_no_use() -> None:
    typical = typical_of([a_spec(1, vcpus=4.0)])
    node = Node(name="n0", engine="fake", accelerator="T4", devices=("0", "1"), vcpus=2, memory_gb=64)
    assert Fragments(typical).see(node) == (2.0, 2.0)
    other = Node(name="n0", engine="fake", accelerator="K80", devices=("0", "1"), vcpus=64, memory_gb=64)
    assert Fragments(typical).see(other) == (2.0, 2.0)


def test_a_node_that_is_down_has_nothing_idle() -> None:
    fragments = Fragments(typical_of([a_spec(1)]))
    (node,) = nodes_of_text("1x8xT4")
    assert fragments.see(node) == (8.0, 0.0)
    down = Node(name=node.name, engine="fake", accelerator="T4", devices=node.devices, state=NodeState.DOWN)
    assert fragments.see(down) == (-8.0, 0.0) and fragments.see(node) == (8.0, 0.0)


def test_rare_jobs_are_not_typical() -> None:
    typical = typical_of([*[a_spec(1)] * 97, *[a_spec(2)] * 3])
    assert [t.machine.accelerator_milli for t in typical] == [1000] and typical[0].share == 1
