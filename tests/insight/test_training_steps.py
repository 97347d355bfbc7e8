"""How a job trains, from what its programs tell: rates, series, and what is wrong."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.insight.findings.evidence import Evidence
from stoker.insight.findings.rules import findings
from stoker.insight.training_steps import (
    Progress,
    Window,
    per_second,
    progress_of,
    series,
    share,
    speed_up,
    step_seconds,
)


def told(step: int, steps: int, seconds: float, **more: Any) -> str:
    """A line of a program."""
    window = {"t": 1000.0 + step, "step": step, "steps": steps, "seconds": seconds, "longest": seconds / steps}
    return json.dumps({**window, "examples": 32 * steps, "waited": None, "together": None, "values": {}, **more})


def training(*lines: str, replica: str = "chief-0") -> Progress:
    """Of one replica."""
    (found,) = progress_of([(replica, line) for line in lines])
    return found


def gang(**own: tuple[float, float, float]) -> list[Progress]:
    """Replicas whose ten steps took so long, of that together, of that waiting for data."""
    lines = [(name.replace("_", "-"), told(1, 1, 9.0)) for name in own]
    for name, (seconds, together, waited) in own.items():
        lines.append((name.replace("_", "-"), told(11, 10, 10 * seconds, together=10 * together, waited=10 * waited)))
    return progress_of(lines)


def test_rates_are_those_of_the_last_half_minute_without_the_first_step() -> None:
    found = training(told(1, 1, 20.0), told(31, 30, 300.0), *(told(31 + 10 * n, 10, 10.0 / n) for n in (1, 2, 3, 4)))
    recent = found.recent
    assert found.first_seconds == 20.0 and recent.steps == 70, "40 of them within 21 s, and the window before"
    assert found.last.step == 71
    quick = training(told(1, 1, 20.0), told(301, 300, 30.0), told(501, 200, 10.0, waited=2.5))
    assert (quick.recent.steps, per_second(200, quick.last), step_seconds(quick.last)) == (500, 20.0, 0.05)
    assert share(quick.last.waited, quick.last) == 0.25 and share(quick.recent.waited, quick.recent) == 0.25
    assert training(told(1, 1, 20.0)).recent.steps == 1, "there is no other"


def test_a_program_that_was_started_again_counts_anew() -> None:
    found = training(told(1, 1, 5.0), told(101, 100, 10.0), told(1, 1, 5.0), told(11, 10, 5.0))
    assert (found.recent.steps, found.last.step) == (10, 11)


def test_the_way_is_that_of_the_first_step() -> None:
    (found,) = progress_of(
        [("worker-0", json.dumps({"way": "averaged gradients", "replicas": 2})), ("worker-0", told(1, 1, 1.0))]
    )
    assert (found.way, found.in_step) == ("averaged gradients", 2)


def test_an_epoch_is_as_long_as_was_told_last() -> None:
    lines = [json.dumps({"epoch_steps": n}) for n in (65, 17, True, -1, "x")]
    assert training(*lines, told(1, 1, 1.0)).epoch_steps == 17
    assert training(told(1, 1, 1.0)).epoch_steps is None


def test_a_speed_up_is_of_examples_or_of_epochs() -> None:
    def of(seconds: float, examples: int, epoch: int = 0) -> Progress:
        lines = [told(1, 1, 9.0), told(11, 10, 10 * seconds, examples=examples)]
        return training(*([json.dumps({"epoch_steps": epoch})] if epoch else []), *lines)

    assert speed_up([of(0.1, 320), of(0.1, 320)], [of(0.1, 400)]) == pytest.approx(1.6)
    assert speed_up([of(0.1, 0, 50), of(0.1, 0, 50)], [of(0.1, 0, 100)]) == pytest.approx(2.0)
    copies = [of(0.1, 320, 100), of(0.1, 320, 100)]
    assert speed_up(copies, [of(0.1, 320, 100)]) == pytest.approx(1.0), "each goes through all of it"
    assert speed_up([of(0.1, 0)], [of(0.1, 400)]) is None and speed_up([], [of(0.1, 400)]) is None


def test_the_chief_comes_first_and_numbers_are_numbers() -> None:
    lines = [(f"{name}", told(1, 1, 1.0)) for name in ("worker-10", "worker-2", "ps-0", "chief-0")]
    assert [p.replica for p in progress_of(lines)] == ["chief-0", "ps-0", "worker-2", "worker-10"]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 100.0), st.booleans()), min_size=1, max_size=300),
    st.integers(2, 50),
)
def test_a_series_is_short_and_loses_no_step(runs: list[tuple[int, float, bool]], most: int) -> None:
    windows, step = [], 0
    for steps, seconds, is_anew in runs:
        step = steps if is_anew else step + steps
        windows.append(
            Window(
                at=0.0, step=step, steps=steps, seconds=seconds, longest=seconds, examples=0, waited=None, together=None
            )
        )
    found = series(windows, most)
    assert len(found) <= most and found[0].steps >= windows[0].steps
    if not any(anew for _, _, anew in runs):
        assert sum(w.steps for w in found) == sum(w.steps for w in windows)
        assert math.isclose(sum(w.seconds for w in found), sum(w.seconds for w in windows))


garbage = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["t", "step", "steps", "seconds", "values", "loss"]), inner)
    ),
)


@given(st.lists(st.tuples(st.sampled_from(["chief-0", "x", ""]), st.text() | garbage.map(json.dumps))))
def test_whatever_a_program_tells_there_is_an_answer(lines: list[tuple[str, str]]) -> None:
    for found in progress_of(lines):
        assert found.recent.steps >= 0 and series(found.windows, 10)
    findings(Evidence(training=progress_of(lines)))


def test_numbers_of_hundreds_of_digits_are_infinite() -> None:
    huge = "1" + "0" * 400
    found = training(f'{{"t": 1, "step": 1, "steps": 1, "seconds": 1, "values": {{"a": {huge}, "b": -{huge}}}}}')
    assert found.values == {"a": math.inf, "b": -math.inf}


def codes(found: list[Progress]) -> list[str]:
    return [finding.code for finding in findings(Evidence(training=found))]


def test_a_healthy_gang_has_no_findings() -> None:
    assert codes(gang(chief_0=(0.1, 0.02, 0.004), worker_0=(0.1, 0.025, 0.005), worker_1=(0.1, 0.01, 0.003))) == []


@pytest.mark.parametrize(("waited", "code"), [(0.009, []), (0.011, ["WAITS_FOR_DATA"]), (0.04, ["INPUT_BOUND"])])
def test_waiting_for_data(waited: float, code: list[str]) -> None:
    assert codes(gang(chief_0=(0.1, 0.0, waited))) == code


def test_the_one_that_the_others_wait_for() -> None:
    """All steps take equally long, for they are one: the slowest waits least for the others."""
    found = gang(chief_0=(0.2, 0.1, 0.0), worker_0=(0.2, 0.1, 0.0), worker_1=(0.2, 0.01, 0.0))
    (finding,) = findings(Evidence(training=found))
    assert finding.code == "STRAGGLER"
    assert finding.text == "worker-1 takes 190 ms of its own for a step, the others 100 ms"
    because_of_data = findings(Evidence(training=gang(chief_0=(0.2, 0.1, 0.0), worker_0=(0.2, 0.01, 0.08))))[-1]
    assert because_of_data.text.endswith("the others 100 ms, most of the difference waiting for data")


def test_a_loss_that_is_no_number() -> None:
    found = training(told(1, 1, 1.0, values={"loss": 2.0}), told(9, 8, 1.0, values={"loss": "nan"}))
    (finding,) = findings(Evidence(training=[found]))
    assert finding.code == "NOT_A_NUMBER" and finding.text == "loss of chief-0 is nan, since step 9 or shortly before"
    again = training(told(1, 1, 1.0, values={"loss": "nan"}), told(9, 8, 1.0, values={"loss": 1.0}))
    assert findings(Evidence(training=[again])) == [], "it has come back"


def test_values_alone_are_no_start_and_steps_that_are_done_as_one_are_the_first() -> None:
    found = training(told(10, 10, 9.0), told(20, 10, 1.0), json.dumps({**json.loads(told(20, 1, 1.0)), "steps": 0}))
    assert found.runs == 1 and found.first_seconds == 9.0 and found.recent.steps == 10
    assert training(told(5, 5, 1.0), told(5, 5, 1.0)).runs == 2
