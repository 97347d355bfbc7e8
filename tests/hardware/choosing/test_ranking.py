"""Offers in, a ranking out."""

from dataclasses import replace

import pytest

from stoker.hardware.choosing.offers import CPU, NOT_KNOWN, Offer, Place, catalog_offers
from stoker.hardware.choosing.ranking import CPU_ENOUGH_SECONDS, HEADROOM, Need, Task, rank
from stoker.hardware.choosing.workload import Framework, ModelKind, Precision, Workload
from stoker.hardware.gpus import gpus

MODEL = Workload(parameters=350e6, batch=64, precision=Precision.BF16)
TINY = Workload(parameters=1e5, batch=32, kind=ModelKind.DENSE)


def an_offer(gpu, usd=1.0, count=1, **changes):
    chip = gpus()[gpu]
    base = Offer(
        place=Place.CLOUD,
        name=gpu,
        chip=chip,
        count=count,
        vcpus=8,
        memory_gb=64,
        device_bytes=chip.memory_gb * 1e9,
        usd_per_hour=usd,
        regions=3,
    )
    return replace(base, **changes)


def a_cpu(vcpus=4, usd=0.2, **changes):
    base = Offer(place=Place.CLOUD, name=CPU, vcpus=vcpus, memory_gb=4.0 * vcpus, usd_per_hour=usd, regions=1)
    return replace(base, **changes)


def names(ranked):
    return [one.offer.name for one in ranked if one.is_fit]


def why(ranked, name):
    return "; ".join(next(one for one in ranked if one.offer.name == name).why)


def test_memory_that_does_not_suffice_is_said_in_numbers():
    found = rank(Need(memory_bytes=20e9), [an_offer("t4"), an_offer("a100-40")])
    assert names(found) == ["a100-40"] and why(found, "t4") == "16 GB < 22 GB needed"
    assert found[0].needed_bytes == 20e9 * HEADROOM


def test_exactly_enough_is_enough():
    assert names(rank(Need(memory_bytes=16e9 / HEADROOM), [an_offer("t4")])) == ["t4"]
    assert not names(rank(Need(memory_bytes=16e9 / HEADROOM + 1e6), [an_offer("t4")]))


def test_research_counts_the_price_of_the_work():
    found = rank(Need(memory_bytes=10e9, precision=Precision.BF16), [an_offer("l4", 1.0), an_offer("h100", 2.0)])
    assert names(found) == ["h100", "l4"]
    assert "times as much for each unit of work" in why(found, "l4") and "times as slow" in why(found, "l4")
    dear = rank(Need(memory_bytes=10e9, precision=Precision.BF16), [an_offer("l4", 1.0), an_offer("h100", 50.0)])
    assert names(dear) == ["l4", "h100"] and "times as quick" in why(dear, "h100")


def test_study_counts_the_hour():
    found = rank(Need(memory_bytes=10e9, task=Task.STUDY), [an_offer("h100", 2.0), an_offer("l4", 1.0)])
    assert names(found) == ["l4", "h100"] and "costs 2 times as much an hour" in why(found, "h100")


def test_production_is_for_what_was_made_for_it():
    offers = [an_offer("rtx-4090", 0.1), an_offer("titan-v", 0.1), an_offer("rtx-a6000", 0.1), an_offer("a100-40", 9.0)]
    found = rank(Need(memory_bytes=5e9, task=Task.PRODUCTION), offers)
    assert names(found) == ["a100-40"] and why(found, "rtx-4090").startswith("consumer:")
    nowhere = rank(Need(memory_bytes=5e9, task=Task.PRODUCTION), [an_offer("a100-40", regions=0)])
    assert why(nowhere, "a100-40") == "no region has it"


def test_the_budget():
    offers = [an_offer("h100", 4.0), an_offer("l4", 1.0), an_offer("rtx-5090", None, place=Place.PURCHASE)]
    found = rank(Need(memory_bytes=5e9, budget_usd_per_hour=3.0), offers)
    assert names(found) == ["l4"] and why(found, "h100") == "4.00 USD/h > 3 USD/h of the budget"
    assert NOT_KNOWN in why(found, "rtx-5090")
    own = rank(Need(memory_bytes=5e9, budget_usd_per_hour=3.0), [an_offer("h100", 4.0, place=Place.SITE)])
    assert names(own) == ["h100"], "it is paid for already"


def test_the_sites_own_comes_first_when_it_suffices():
    offers = [an_offer("h100", 0.01), an_offer("t4", None, place=Place.SITE, notes=("3 of 4 t4 are free now",))]
    found = rank(Need(memory_bytes=10e9), offers)
    assert names(found) == ["t4", "h100"] and "3 of 4 t4 are free now" in why(found, "t4")
    assert "not of this site" in why(found, "h100")
    assert names(rank(Need(memory_bytes=20e9), offers)) == ["h100"]


def test_of_the_sites_own_what_is_free_and_to_learn_the_small_one():
    held = an_offer("h100", None, place=Place.SITE, free=0.0, whole=4.0)
    free = an_offer("t4", None, place=Place.SITE, free=1.0, whole=4.0)
    assert names(rank(Need(memory_bytes=10e9), [held, free])) == ["t4", "h100"]
    offers = [replace(held, free=4.0), free]
    assert names(rank(Need(memory_bytes=10e9), offers)) == ["h100", "t4"], "the quicker"
    assert names(rank(Need(memory_bytes=10e9, task=Task.STUDY), offers)) == ["t4", "h100"], "the smaller"


def test_of_the_counts_of_an_accelerator_the_least_that_suffices():
    """The batch is divided among them: two T4s hold what one does not."""
    found = rank(Need(work=MODEL), [an_offer("t4", 0.4 * count, count) for count in (1, 2, 4)])
    assert [(one.offer.count, one.is_fit, one.batch) for one in found] == [(2, True, 32)]
    assert "the model is on each as a whole" in why(found, "t4")


def test_a_machine_of_eight_comes_after_those_of_which_one_suffices():
    found = rank(Need(memory_bytes=10e9), [an_offer("h200", 8.0, 8), an_offer("l4", 5.0)])
    assert names(found) == ["l4", "h200"] and "one of the 8 would suffice" in why(found, "h200")
    needs_two = rank(Need(work=MODEL), [an_offer("t4", 0.8, 2), an_offer("a100-40", 99.0)])
    assert names(needs_two) == ["t4", "a100-40"] and "would suffice" not in why(needs_two, "t4")


def test_no_number_of_devices_divides_the_weights():
    large = Workload(parameters=7e9, batch=64, precision=Precision.BF16)
    found = rank(Need(work=large), [an_offer("a100-80", count, count) for count in (1, 8, 1024)])
    assert not names(found) and "needed on each" in why(found, "a100-80")


def test_processors_are_enough_for_a_small_model():
    found = rank(Need(work=TINY, task=Task.STUDY), [a_cpu(), an_offer("t4", 0.4)])
    assert names(found) == [CPU, "t4"] and found[0].step_seconds <= CPU_ENOUGH_SECONDS


def test_processors_are_not_enough_for_a_large_one():
    found = rank(Need(work=MODEL, task=Task.STUDY), [a_cpu(vcpus=96), an_offer("a100-40")])
    assert names(found) == ["a100-40"] and "times as long as on the quickest" in why(found, CPU)


def test_without_a_model_nothing_is_said_of_processors():
    assert "cannot be told" in why(rank(Need(memory_bytes=1e9), [a_cpu(), an_offer("t4")]), CPU)


def test_a_precision_that_a_card_lacks():
    found = rank(Need(memory_bytes=1e9, precision=Precision.BF16), [an_offer("t4"), an_offer("k80")])
    assert "has no bf16: computes in fp32, fp16 would be quicker" in why(found, "t4")
    assert "has no bf16: computes in fp32" in why(found, "k80") and "fp16" not in why(found, "k80")


def test_tpus_do_not_train_pytorch():
    tpu = an_offer("tpu-v3", name="TPU_V3")
    assert not names(rank(Need(memory_bytes=1e9), [tpu]))
    assert names(rank(Need(memory_bytes=1e9, framework=Framework.JAX), [tpu])) == ["TPU_V3"]


def test_what_is_rented_no_more_is_out():
    gone = an_offer("k80", notes=("nvidia-tesla-k80 is retired on Google Cloud: its last known price, of 2022",))
    assert not names(rank(Need(memory_bytes=1e9), [gone]))


def test_systems_and_what_has_no_price_come_last():
    system = an_offer("a100-40", None, 8, place=Place.PURCHASE, name="DGX A100")
    bought = an_offer("rtx-5090", None, place=Place.PURCHASE)
    assert names(rank(Need(memory_bytes=5e9), [system, bought, an_offer("k80", 99.0)])) == [
        "k80",
        "rtx-5090",
        "DGX A100",
    ]


def test_nothing_at_all():
    assert rank(Need(memory_bytes=5e9), []) == []


@pytest.mark.parametrize("task", Task)
def test_the_best_of_the_whole_catalog_says_why_it_is_and_all_others_why_not(task):
    found = rank(Need(work=MODEL, task=task, precision=Precision.BF16), catalog_offers())
    fits = [one for one in found if one.is_fit]
    assert len(fits) > 10 and found == [*fits, *(one for one in found if not one.is_fit)]
    assert all(one.why for one in found)
    assert all(one.needed_bytes <= one.offer.memory_bytes for one in fits)
