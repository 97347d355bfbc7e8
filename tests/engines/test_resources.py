"""How many replicas a machine runs, by what it has."""

from __future__ import annotations

from dataclasses import replace

from stoker.engines.local.machine import with_slots
from stoker.engines.local.resources import Resources
from tests.builders import nodes

GB = 1 << 30
LARGE = Resources(memory_bytes=1024 * GB, tasks=4_000_000, files=524_288, cores=64)


def test_the_scarcest_decides() -> None:
    assert LARGE.replicas == 3_000
    assert replace(LARGE, cores=2).replicas == 200
    assert replace(LARGE, memory_bytes=4 * GB).replicas == 64
    assert replace(LARGE, tasks=4096).replicas == 128
    assert replace(LARGE, files=1024).replicas == 128


def test_a_small_machine_runs_some() -> None:
    assert Resources(memory_bytes=GB // 4, tasks=100, files=64, cores=1).replicas == 16


def test_this_machine_runs_some() -> None:
    assert 16 <= Resources.here().replicas <= 3_000


def test_all_nodes_are_of_one_machine() -> None:
    assert {(n.most_replicas, n.shares_machine) for n in with_slots(nodes("a:0 b:4"), 7)} == {(7, True)}


def test_a_fork_bomb_leaves_room_to_others() -> None:
    assert LARGE.tasks_of_replica == 10_000
    assert replace(LARGE, cores=2).tasks_of_replica == 512
    assert replace(LARGE, cores=16).tasks_of_replica == 4096
    assert replace(LARGE, tasks=16_000).tasks_of_replica == 2000
    assert replace(LARGE, tasks=16_000).tasks_of_user == 8000


def test_jobs_leave_memory_to_the_server() -> None:
    assert LARGE.bytes_of_jobs == 1020 * GB
    assert replace(LARGE, memory_bytes=24 * GB).bytes_of_jobs == 22.5 * GB
    assert replace(LARGE, memory_bytes=GB).bytes_of_jobs == 0.75 * GB
