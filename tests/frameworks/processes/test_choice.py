"""Which way of training together a program gets."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stoker.frameworks.messages import Refused
from stoker.frameworks.processes.choice import choose_jax, choose_keras, choose_torch
from stoker.frameworks.processes.cluster import Cluster, cluster_of
from stoker.frameworks.processes.learning_rates import Rates
from stoker.frameworks.torch.source_checks import check_devices


def a_cluster(processes: int = 1, devices: int = 0, **changes: Any) -> Cluster:
    """A chief among so many."""
    values = {"role": "chief", "rank": 0, "processes": processes, "devices": devices, "is_pretended": False, "seed": 0}
    return Cluster(**{**values, **changes})


@pytest.mark.parametrize(
    ("asked", "processes", "devices", "way"),
    [
        ("none", 3, 4, "none"),
        ("auto", 1, 0, "none"),
        ("auto", 1, 1, "none"),
        ("auto", 1, 4, "mirrored"),
        ("mirrored", 1, 4, "mirrored"),
        ("auto", 3, 0, "multiworker"),
        ("auto", 3, 4, "multiworker"),
        ("multiworker", 2, 1, "multiworker"),
        ("multiworker", 1, 2, "mirrored"),
    ],
)
def test_keras(asked: str, processes: int, devices: int, way: str) -> None:
    assert choose_keras(asked, a_cluster(processes, devices)) == way


@pytest.mark.parametrize(
    ("asked", "processes", "devices", "way"),
    [
        ("none", 2, 0, "none"),
        ("auto", 1, 1, "none"),
        ("auto", 2, 0, "ddp"),
        ("ddp", 3, 1, "ddp"),
        ("fsdp", 1, 1, "none"),
    ],
)
def test_torch(asked: str, processes: int, devices: int, way: str) -> None:
    assert choose_torch(asked, a_cluster(processes, devices)) == way


def test_jax() -> None:
    assert choose_jax("auto", a_cluster(2)) == "jax" and choose_jax("auto", a_cluster(1, 8)) == "none"
    assert choose_jax("none", a_cluster(2)) == "none"


def test_parameter_servers_are_for_tf_keras() -> None:
    cluster = a_cluster(3, servers=1)
    assert choose_keras("auto", cluster, is_legacy=True) == choose_keras("ps", cluster, is_legacy=True) == "ps"
    assert choose_keras("ps", a_cluster(1, role="ps", rank=-1, servers=1), is_legacy=True) == "ps"
    assert choose_keras("none", cluster) == choose_torch("none", cluster) == choose_jax("none", cluster) == "none"
    evaluator = a_cluster(1, role="evaluator", rank=-1, servers=1)
    assert choose_keras("auto", evaluator) == choose_keras("ps", evaluator, is_legacy=True) == "none"


@pytest.mark.parametrize(
    ("asked", "cluster", "is_legacy", "why"),
    [
        ("auto", a_cluster(3, servers=1), False, "fit of Keras 3 does not train with parameter servers"),
        ("auto", a_cluster(1, role="ps", rank=-1, servers=1), False, "fit of Keras 3 does not train"),
        ("ps", a_cluster(3), True, "the job has none"),
        ("multiworker", a_cluster(3, servers=2), True, "no use for the job's 2 parameter servers"),
        ("ps", a_cluster(1, servers=1), True, "there is no worker"),
    ],
)
def test_what_parameter_servers_cannot(asked: str, cluster: Cluster, is_legacy: bool, why: str) -> None:
    with pytest.raises(Refused, match=why):
        choose_keras(asked, cluster, is_legacy=is_legacy)


def test_other_frameworks_have_no_use_for_parameter_servers() -> None:
    for choose in (choose_torch, choose_jax):
        with pytest.raises(Refused, match="does not train with parameter servers, and the job has 1"):
            choose("auto", a_cluster(2, servers=1))


def test_parameter_servers_are_counted() -> None:
    config = '{"cluster": {"chief": ["a:1"], "ps": ["b:1", "c:1"]}, "task": {"type": "chief", "index": 0}}'
    assert cluster_of({"TF_CONFIG": config}).servers == 2
    assert [cluster_of({"TF_CONFIG": bad}).servers for bad in ("", "{", "[]", '{"cluster": 3}')] == [0, 0, 0, 0]


def test_an_evaluator_trains_alone() -> None:
    cluster = a_cluster(3, role="evaluator", rank=-1)
    assert choose_keras("auto", cluster) == choose_torch("auto", cluster) == choose_jax("auto", cluster) == "none"


@pytest.mark.parametrize(
    ("refused", "why", "fix"),
    [
        (
            lambda: choose_keras("mirrored", a_cluster(3)),
            "for one machine, and 3 take part",
            "--distribute multiworker",
        ),
        (lambda: choose_keras("ddp", a_cluster(2)), "is for PyTorch", "auto or mirrored or multiworker"),
        (lambda: choose_torch("multiworker", a_cluster(2)), "is for Keras", "auto or ddp or fsdp"),
        (lambda: choose_torch("fsdp", a_cluster(2)), "shards its model itself", "--distribute ddp"),
        (lambda: choose_jax("ddp", a_cluster(2)), "the program uses JAX", "auto or jax"),
    ],
)
def test_what_cannot_be_is_refused_with_the_nearest_that_can(refused: Any, why: str, fix: str) -> None:
    with pytest.raises(Refused) as found:
        refused()
    assert why in str(found.value) and fix in str(found.value).partition(";")[2]


def test_the_cluster_by_its_variables() -> None:
    variables = {"STOKER_ROLE": "worker", "RANK": "1", "WORLD_SIZE": "2", "STOKER_GPUS_PER_NODE": "4"}
    cluster = cluster_of(variables)
    assert (cluster.rank, cluster.processes, cluster.replicas, cluster.is_chief) == (1, 2, 8, False)
    assert not cluster.is_pretended and cluster_of({**variables, "STOKER_VIRTUAL_NODE": "1"}).is_pretended
    assert cluster_of({"STOKER_ROLE": "ps", "WORLD_SIZE": "2"}).rank == -1
    assert cluster_of({}).replicas == 1


def test_all_of_a_job_have_one_seed() -> None:
    job = {"STOKER_JOB_ID": "p/j", "STOKER_ATTEMPT": "1"}
    assert cluster_of({**job, "RANK": "0"}).seed == cluster_of({**job, "RANK": "1", "STOKER_ATTEMPT": "2"}).seed
    assert cluster_of(job).seed != cluster_of({"STOKER_JOB_ID": "p/k"}).seed


def test_training_beside_the_gpus_is_refused() -> None:
    for kinds, has_gpus in (({"cuda"}, True), ({"cpu", "cuda"}, True), ({"cpu"}, False), (set(), True)):
        check_devices(kinds, has_gpus)
    with pytest.raises(Refused, match="asked for a GPU for each process, and the program trains on the processors"):
        check_devices({"cpu"}, True)


def test_a_learning_rate_grows_by_the_rule_and_what_is_set_later_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_LEARNING_RATE_RULE", "sqrt")
    rates, group = Rates(4), {"lr": 0.1}
    rates.scale_group(group, [])
    assert group["lr"] == 0.2 and rates.note(group, 0.2) == "learning rate 0.1 -> 0.2 (sqrt)"
    assert rates.note(group, 0.1) == "learning rate 0.1 -> 0.2 (sqrt), by now 0.1"
    assert rates.note(group, math.nan) == "learning rate 0.1 -> 0.2 (sqrt)" and rates.note({}, 1.0) == ""
    rates.scale_group(group, [])  # an optimizer within another one
    assert group["lr"] == 0.2
    head, slow = {"lr": group["lr"]}, {"lr": 0.01}
    for added in (head, slow):
        rates.scale_group(added, [group])
    assert (head["lr"], slow["lr"]) == (0.2, 0.02), "the first has the rate that has grown"
    assert rates.note(slow, 0.02) == "learning rate 0.01 -> 0.02 (sqrt)"
    monkeypatch.setenv("STOKER_LEARNING_RATE_RULE", "none")
    Rates(4).scale_group(group, [])
    assert group["lr"] == 0.2 and Rates(4).note(group, 0.2) == ""
