"""What else could be asked for, and start sooner."""

from __future__ import annotations

from dataclasses import replace

from stoker.core.job import Job
from stoker.core.site import Site
from stoker.core.spec import Machine
from stoker.scheduling.history import History
from stoker.simulate.forecast import forecast
from stoker.simulate.future import Now
from stoker.simulate.what_if import variants, what_ifs
from tests.builders import a_job, a_node

from .futures import AMPLE, AT, a_now, a_past, full

PAST = a_past(*[7200.0] * 10)


def sooner(now: Now, job: Job, history: History = PAST) -> dict[str, tuple[str, float | None]]:
    """Change → the words, and the start from now."""
    found = what_ifs(now, job, forecast(now, job.id, AMPLE), history, AMPLE)
    return {one.change: (one.text, one.start.at.middle and one.start.at.middle - AT) for one in found}


def test_fewer_workers_start_at_once() -> None:
    job = a_job("j", gpus=4, workers=3)
    now = a_now("n0:4 n1:4 n2:4 n3:4", running=full("n0 n1", 600.0, 600.0), waiting=[job], history=PAST)
    assert sooner(now, job)["workers"] == ("with 1 worker instead of 3", 0.0)


def test_none_of_its_workers() -> None:
    job = a_job("j", gpus=4, workers=1)
    now = a_now("n0:4 n1:4", running=full("n0", 600.0), waiting=[job], history=PAST)
    assert sooner(now, job)["workers"] == ("without its 1 worker", 0.0)


def test_fewer_accelerators_start_at_once() -> None:
    job, other = a_job("j", gpus=4), a_job("run_0", at=AT - 600, gpus=2)
    now = a_now("n0:4", running={"n0": (other, 600.0)}, waiting=[job], history=PAST)
    assert sooner(now, job)["accelerators"] == ("with 2 GPUs for each replica instead of 4", 0.0)


def test_another_type_that_the_site_has() -> None:
    job = a_job("j", gpus=4)
    now = a_now("n0:4", running=full("n0", 600.0), waiting=[job], history=PAST)
    now.world.nodes["v0"] = a_node("v0", 4, accelerator="V100")
    now.world.nodes["k0"] = a_node("k0", 2, accelerator="K80")  # too small
    assert sooner(now, job) == {"accelerator_type": ("on V100", 0.0)}


def test_a_machine_type_takes_only_what_it_is_sold_with() -> None:
    job = a_job("j")
    machine = Machine(type="n1-standard-4", vcpus=4, accelerator="NVIDIA_TESLA_T4", accelerator_milli=4000)
    spec = replace(job.spec, groups=(replace(job.spec.groups[0], machine=machine),))
    now = a_now("", waiting=[])
    for name, accelerator in (("a", "NVIDIA_TESLA_T4"), ("b", "NVIDIA_TESLA_P100"), ("c", "NVIDIA_TESLA_A100")):
        now.world.nodes[name] = a_node(name, 8, accelerator=accelerator)
    found = {(one.change, one.instead) for one in variants(spec, now)}
    assert ("accelerator_type", "NVIDIA_TESLA_P100") in found and ("accelerators", "2") in found
    assert not any(instead == "NVIDIA_TESLA_A100" for _, instead in found)  # A100s are built into other machines


def test_a_higher_priority_where_the_policy_goes_by_it() -> None:
    job, others = a_job("j", at=AT - 1, gpus=4), [a_job(f"w_{n}", at=AT - 10, gpus=4) for n in range(3)]
    now = a_now("n0:4", running=full("n0", 600.0), waiting=[*others, job], history=PAST)
    assert sooner(now, job) == {"priority": ("with priority 1", 6600.0)}
    fifo = replace(now, rules=a_now("n0:4", site=Site(policy="fifo")).rules)
    assert sooner(fifo, job) == {}


def test_preemptible_ones_may_use_what_is_kept_for_others() -> None:
    gang = a_job("gang", at=AT - 100, gpus=4, workers=1, priority=1000)
    job = a_job("j", gpus=4)
    now = a_now("n0:4 n1:4", running=full("n0", 600.0), waiting=[gang, job], history=PAST)
    assert sooner(now, job) == {"preemptible": ("as preemptible", 0.0)}


def test_who_starts_at_once_needs_no_advice() -> None:
    job = a_job("j", gpus=4, workers=1)
    now = a_now("n0:4 n1:4", waiting=[job], history=PAST)
    assert sooner(now, job) == {}


def test_what_is_hardly_sooner_is_not_told() -> None:
    job = a_job("j", gpus=4, workers=1)
    now = a_now("n0:4 n1:4", running=full("n0 n1", 7000.0, 6990.0), waiting=[job], history=PAST)
    assert sooner(now, job) == {}
