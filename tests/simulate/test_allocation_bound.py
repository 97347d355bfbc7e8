"""Limits of allocation: by hand, against the reference, and never below what a placement reaches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.simulate.allocation_bound import _most, allocation_bound
from stoker.simulate.trace import TraceJob, TraceNode, read_trace
from tests.simulate.real_traces import FOLDER, REAL


def a_pod(milli: int, *models: str, vcpus: float = 0, memory_gb: float = 0) -> TraceJob:
    """A pod that wants so much of a GPU."""
    name = f"{milli}-{models}-{vcpus}-{memory_gb}"
    return TraceJob(
        name=name,
        submitted_at=0,
        run_seconds=1,
        gpus_milli=milli,
        accelerators=models,
        vcpus=vcpus,
        memory_gb=memory_gb,
    )


def a_node(gpus: int, model: str = "T4", *, vcpus: float = 64, memory_gb: float = 256, count: int = 1) -> TraceNode:
    """A node, or several."""
    return TraceNode(gpus=gpus, accelerator=model, vcpus=vcpus, memory_gb=memory_gb, count=count)


def test_pods_that_fill_devices_can_have_them_all() -> None:
    found = allocation_bound([a_pod(500)] * 8 + [a_pod(2000)] * 2, [a_node(4, count=2)])
    assert (found.capacity_milli, found.share) == (8000, 1)


def test_a_share_lies_on_one_device() -> None:
    found = allocation_bound([a_pod(600)] * 10, [a_node(2)])
    assert found.by_resources_milli == pytest.approx(2000) and found.by_sizes_milli == pytest.approx(1200)


def test_pods_take_only_models_that_they_accept() -> None:
    nodes = [a_node(2, "T4"), a_node(2, "A100")]
    assert allocation_bound([a_pod(1000, "A100")] * 4, nodes).share == pytest.approx(0.5)
    assert allocation_bound([a_pod(1000, "A100", "T4")] * 4, nodes).share == 1


def test_pods_need_cpus_and_memory_too_and_fit_on_one_node() -> None:
    assert allocation_bound([a_pod(1000, vcpus=32)] * 4, [a_node(4)]).share == pytest.approx(0.5)
    assert allocation_bound([a_pod(1000, memory_gb=256)] * 4, [a_node(4)]).share == pytest.approx(0.25)
    assert allocation_bound([a_pod(8000)], [a_node(4, count=2)]).share == 0


def test_nodes_and_pods_without_gpus_count_for_nothing() -> None:
    found = allocation_bound([a_pod(0, vcpus=64), a_pod(1000)], [a_node(0), a_node(1)])
    assert (found.capacity_milli, found.share) == (1000, 1)
    assert allocation_bound([a_pod(0)], [a_node(1)]).share == 0


def test_copies_are_the_mix_of_a_longer_list() -> None:
    assert allocation_bound([a_pod(250)], [a_node(1)], copies=2).share == pytest.approx(0.5)


@settings(max_examples=150, deadline=None, database=None)
@given(
    pods=st.lists(
        st.tuples(st.sampled_from([100, 300, 340, 460, 600, 1000, 2000]), st.sampled_from([(), ("T4",), ("G2",)])),
        min_size=1,
        max_size=14,
    ),
    nodes=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["T4", "G2"])), min_size=1, max_size=3),
    vcpus=st.integers(1, 8),
)
def test_no_placement_holds_more(
    pods: list[tuple[int, tuple[str, ...]]], nodes: list[tuple[int, str]], vcpus: int
) -> None:
    devices = [[1000] * gpus for gpus, _ in nodes]
    cpus, held = [vcpus] * len(nodes), 0
    for milli, models in pods:
        for place, (_, model) in enumerate(nodes):
            need, each = (milli // 1000, 1000) if milli > 1000 else (1, milli)
            fitting = [n for n, left in enumerate(devices[place]) if left >= each][:need]
            if len(fitting) == need and cpus[place] and (not models or model in models):
                for n in fitting:
                    devices[place][n] -= each
                cpus[place] -= 1
                held += milli
                break
    work = [a_pod(milli, *models, vcpus=1) for milli, models in pods]
    cluster = [a_node(gpus, model, vcpus=vcpus) for gpus, model in nodes]
    limit = allocation_bound(work, cluster)
    assert held <= min(limit.by_resources_milli, limit.by_sizes_milli) + 1e-6


@settings(max_examples=100, deadline=None, database=None)
@given(rows=st.integers(1, 6), columns=st.integers(1, 8), seed=st.integers(0, 10_000))
def test_the_prices_prove_the_most(rows: int, columns: int, seed: int) -> None:
    """Prices at which no variable gains, and whose sum over the limits is what was reached: nothing can be above."""
    some = np.random.default_rng(seed)
    matrix = np.maximum(0, some.integers(-3, 6, (rows, columns))).astype(float)
    matrix[0] = 1
    gains, limits = some.integers(0, 9, columns).astype(float), some.integers(0, 20, rows).astype(float)
    most, prices = _most(gains, matrix, limits)
    assert (prices >= -1e-7).all() and (matrix.T @ prices >= gains - 1e-6).all()
    assert most == pytest.approx(prices @ limits)


@REAL
@pytest.mark.parametrize(
    ("name", "arrived", "share"),
    [
        *[("default", 1.0, 96.90), ("default", 1.3, 99.89), ("gpushare100", 1.0, 89.16), ("gpushare100", 1.3, 91.61)],
        *[("gpuspec33", 1.0, 96.46), ("multigpu40", 1.0, 98.00), ("cpu200", 1.0, 96.90)],
    ],
)
def test_openb_as_in_the_reference(name: str, arrived: float, share: float) -> None:
    trace = read_trace(FOLDER / "openb" / f"openb_pod_list_{name}.csv.gz")
    copies = arrived * 6_212_000 / sum(job.gpus_milli for job in trace.jobs)
    assert round(100 * allocation_bound(trace.jobs, trace.nodes, copies=copies).share, 2) == share
