"""What measurements of several kinds of hardware say. The figures of 1 and 2 GPUs are those of the documents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.client.comparison import Measured, advice, compared

ONE = Measured(
    candidate="1xT4",
    kind="NVIDIA_TESLA_T4",
    size="n1-standard-8",
    devices=1,
    steps_per_second=10.0,
    examples_per_second=640.0,
    epoch_seconds=9.0,
    usd_per_hour=0.8,
)
TWO = replace(
    ONE,
    candidate="2xT4",
    devices=2,
    in_step=2,
    steps_per_second=8.35,
    examples_per_second=1068.8,
    epoch_seconds=9 / 1.67,
    usd_per_hour=1.6,
)
CPU = replace(ONE, candidate="cpu", kind="", examples_per_second=614.4, epoch_seconds=9.375, usd_per_hour=0.2)


def says(*found: Measured) -> list[str]:
    return list(advice(compared(found)))


def test_two_gpus_beside_one() -> None:
    found = compared([ONE, TWO])
    one, two = found.rows
    assert found.unit == "epoch" and (one.speed_up, one.efficiency) == (1.0, None)
    assert two.speed_up == pytest.approx(1.67) and two.efficiency == pytest.approx(0.835)
    assert one.usd == pytest.approx(0.002) and two.usd == pytest.approx(0.002 * 2 / 1.67)
    assert says(ONE, TWO) == [
        "2xT4: 1.67x as quick as 1xT4 (84 % efficiency), 20 % dearer per epoch",
        "→ 1xT4 is the cheapest per epoch; 2xT4 is 1.67x as quick as 1xT4, 20 % dearer",
    ]


def test_processors_are_enough_where_data_are_what_it_waits_for() -> None:
    said = says(replace(CPU, data_wait_share=0.88), ONE)
    assert said[-1] == "→ cpu is enough: it waits for data 88 % of its time, which larger hardware does not change"
    assert says(CPU, ONE)[-1] == "→ cpu is enough: nothing larger is clearly quicker"
    assert says(ONE, CPU)[-1] == "→ cpu is enough: nothing larger is clearly quicker", "the order changes nothing"


def test_the_quickest_may_be_the_cheapest() -> None:
    slow = replace(CPU, examples_per_second=20.0, epoch_seconds=288.0)
    assert says(slow, ONE) == [
        "1xT4: 32.00x as quick as cpu, 88 % cheaper per epoch",
        "→ 1xT4: the quickest, and the cheapest per epoch",
    ]
    assert compared([slow, ONE]).rows[1].efficiency is None, "a GPU is no more of a processor"


def test_without_prices_the_choice_is_the_readers() -> None:
    free = [replace(one, usd_per_hour=None) for one in (ONE, TWO)]
    assert says(*free) == [
        "2xT4: 1.67x as quick as 1xT4 (84 % efficiency)",
        "→ 2xT4 is the quickest; not all prices are known here, so the choice is yours",
    ]


def test_what_could_not_be_measured_is_left_out() -> None:
    broken = replace(ONE, problem="no node here could ever hold it")
    found = compared([broken, TWO])
    assert [row.speed_up for row in found.rows] == [None, 1.0] and found.rows[0].usd is None
    assert says(broken, TWO) == []
    assert says(broken) == ["nothing could be measured, so there is nothing to recommend"]


def test_what_is_compared_is_what_all_have_in_common() -> None:
    no_epochs = [replace(one, epoch_seconds=None) for one in (ONE, TWO)]
    assert compared(no_epochs).unit == "million examples"
    assert compared(no_epochs).rows[1].speed_up == pytest.approx(1.67)
    epochs = [ONE, replace(TWO, examples_per_second=None)]
    assert compared(epochs).rows[1].speed_up == pytest.approx(1.67)


def test_steps_of_more_devices_may_be_larger_ones() -> None:
    steps = [replace(one, epoch_seconds=None, examples_per_second=None) for one in (ONE, TWO)]
    assert (compared(steps).unit, compared(steps).rows[1].efficiency) == ("1000 steps", None)
    said = says(*steps)
    assert said[0].startswith("2xT4: 0.83x as quick as 1xT4, 140 % dearer per 1000 steps")
    assert said[-1].startswith("→ compared by steps alone"), "and nothing is recommended"
    assert (
        says(steps[0], replace(steps[0], candidate="V100"))[-1] == "→ 1xT4 is enough: nothing larger is clearly quicker"
    )


def test_copies_that_train_each_for_itself_are_no_quicker() -> None:
    """Twice the examples a second, and each goes through all of them."""
    copies = replace(TWO, examples_per_second=1280.0, epoch_seconds=9.0, in_step=None)
    assert compared([ONE, copies]).rows[1].efficiency == pytest.approx(0.5)
    assert "2xT4: whether its 2 train as one is not known (nobody has looked)" in says(ONE, copies)
    assert "2xT4: whether its 2 train as one is not known (1 was seen)" in says(ONE, replace(copies, in_step=1))


def test_without_epochs_copies_cannot_be_told_from_a_gang() -> None:
    one, two = (replace(found, epoch_seconds=None) for found in (ONE, replace(TWO, in_step=None)))
    assert compared([one, two]).rows[1].efficiency is None
    assert says(one, two)[-1] == "2xT4: whether its 2 train as one is not known (nobody has looked)", (
        "no choice is made"
    )


def test_a_price_that_is_not_known_is_not_nothing() -> None:
    assert says(CPU, replace(ONE, usd_per_hour=None))[-1] == "→ cpu is enough: nothing larger is clearly quicker"


def test_the_quickest_is_only_who_is() -> None:
    slow, fast = replace(CPU, epoch_seconds=18.0), replace(ONE, candidate="1xV100", epoch_seconds=8.4, usd_per_hour=2.5)
    assert says(slow, ONE, fast)[-1] == "→ cpu is the cheapest per epoch; 1xT4 is 2.00x as quick as cpu, 100 % dearer"
    dear = replace(slow, usd_per_hour=0.7)
    assert says(dear, ONE, fast)[-1] == "→ 1xT4: as quick as any, and the cheapest per epoch"


def test_efficiency_is_of_more_of_the_same() -> None:
    large = replace(CPU, candidate="2*cpu", devices=2, in_step=2, size="n1-standard-32", epoch_seconds=1.0)
    assert compared([replace(CPU, size="n1-standard-4"), large]).rows[1].efficiency is None
    assert says(replace(ONE, usd_per_hour=0.0), TWO)[0] == "2xT4: 1.67x as quick as 1xT4 (84 % efficiency)"


def test_who_told_of_no_rate_is_no_base() -> None:
    found = compared([replace(ONE, steps_per_second=None, epoch_seconds=None), TWO])
    assert [row.speed_up for row in found.rows] == [None, 1.0]
