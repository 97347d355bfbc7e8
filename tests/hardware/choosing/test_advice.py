from dataclasses import replace

import pytest

from stoker.hardware.choosing.advice import advice, largest_batch
from stoker.hardware.choosing.offers import Place
from stoker.hardware.choosing.ranking import Need
from stoker.hardware.choosing.training_memory import estimate
from stoker.hardware.choosing.workload import Precision, Workload
from tests.hardware.choosing.test_ranking import a_cpu, an_offer

MODEL = Workload(parameters=350e6, batch=64, precision=Precision.BF16)


def test_none_where_a_device_suffices():
    assert advice(Need(work=MODEL), [an_offer("t4"), an_offer("a100-40")]) == []
    assert advice(Need(memory_bytes=10e9), [an_offer("t4")]) == []


def test_what_would_make_it_fit_here_though_a_cloud_has_room():
    found = advice(Need(work=MODEL), [an_offer("t4", place=Place.SITE), an_offer("a100-80")])
    assert found and all(words.startswith("on this site, ") for words in found) and "a batch of 32 fits t4" in found[0]
    assert advice(Need(work=MODEL), [an_offer("a100-40", place=Place.SITE), an_offer("a100-80")]) == []


def test_a_smaller_batch_and_what_else_fits():
    found = "\n".join(advice(Need(work=MODEL), [an_offer("t4")]))
    assert "a batch of 32 fits t4 (16 GB)" in found and "2 such to have a batch of 64" in found
    assert "gradient checkpointing, for a third more work" in found and "data parallel" in found


@pytest.mark.parametrize("room", [8e9, 12e9, 16e9])
def test_the_batch_that_fits_does_and_its_double_does_not(room):
    batch = largest_batch(MODEL, room)
    assert estimate(replace(MODEL, batch=batch)).expected_bytes <= room
    assert estimate(replace(MODEL, batch=2 * batch)).expected_bytes > room


def test_not_even_one_example():
    assert largest_batch(MODEL, 1e9) == 0


def test_so_many_that_divide_the_model():
    large = Workload(parameters=70e9, batch=64, precision=Precision.BF16)
    (words,) = [line for line in advice(Need(work=large), [an_offer("a100-80")]) if "FSDP" in line]
    devices = int(words.split(" x ")[0].split()[-1])
    assert devices >= 70e9 * 18 / 80e9 and "data parallel training alone does not" in words


def test_what_nothing_holds():
    huge = Workload(parameters=1e14, batch=64)
    assert "not even" in advice(Need(work=huge), [an_offer("t4")])[-1]


def test_named_memory_that_no_device_has():
    (words,) = advice(Need(memory_bytes=500e9), [an_offer("t4"), an_offer("a100-80")])
    assert (
        "550 GB" in words and "a100-80, has 80 GB" in words and "data parallel training has all of it on each" in words
    )


def test_a_budget_for_which_there_is_nothing():
    assert "raise the budget" in advice(Need(memory_bytes=1e9, budget_usd_per_hour=0.01), [an_offer("t4"), a_cpu()])[0]
