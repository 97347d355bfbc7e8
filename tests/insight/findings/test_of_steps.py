"""Rules over steps: what each says, and where each stays silent."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.insight.findings.evidence import Confidence, Evidence, Source, Use, uses_of
from stoker.insight.findings.rules import findings
from stoker.insight.training_steps import Progress, Window


def steps(
    replica: str = "chief-0",
    *,
    seconds: float = 0.1,
    count: int = 1000,
    waited: float | None = 0.0,
    together: float | None = None,
    batch: int = 64,
    **more: float,
) -> Progress:
    """Steps that take so long each, of which they wait so long."""
    first = Window(at=1.0, step=1, steps=1, seconds=9.0, longest=9.0, examples=batch, waited=8.0, together=None)
    rest = Window(
        at=1.0 + count * seconds, step=1 + count, steps=count, seconds=count * seconds, longest=seconds,
        examples=count * batch, waited=None if waited is None else count * waited,
        together=None if together is None else count * together, **more,
    )  # fmt: skip
    return Progress(replica=replica, windows=[first, rest], framework="torch", loader_workers=0)


def codes(*training: Progress, uses: dict[str, Use] | None = None) -> list[str]:
    return [finding.code for finding in findings(Evidence(training=training, uses=uses or {}))]


def test_waiting_for_data_says_why_and_what_to_change() -> None:
    slow = steps(waited=0.06)
    (plain,) = findings(Evidence(training=[slow]))
    assert (plain.code, plain.source, plain.confidence) == ("INPUT_BOUND", Source.STEPS, Confidence.HIGH)
    assert "60 % of 100 s and 1000 steps" in plain.evidence[0] and "num_workers=4" in plain.change
    busy = Use(cpus=3.9, of_cpus=4, memory_bytes=1e9, read_bytes_per_second=0.0)
    (found,) = findings(Evidence(training=[slow], uses={"chief-0": busy}))
    assert "processors are all busy" in found.action and found.source is Source.BOTH and "3.9 of 4" in found.evidence[1]
    disk = Use(cpus=0.5, of_cpus=4, memory_bytes=1e9, read_bytes_per_second=120e6)
    (found,) = findings(Evidence(training=[slow], uses={"chief-0": disk}))
    assert "waits for the disk" in found.action and "120 MB/s" in found.evidence[-1]


@pytest.mark.parametrize(
    ("count", "confidence"), [(20, Confidence.LOW), (200, Confidence.MEDIUM), (400, Confidence.HIGH)]
)
def test_how_sure_it_is_grows_with_what_was_seen(count: int, confidence: Confidence) -> None:
    (found,) = findings(Evidence(training=[steps(waited=0.05, count=count)]))
    assert found.confidence is confidence


def test_of_too_little_nothing_is_said() -> None:
    assert codes(steps(waited=0.05, count=3)) == [] and codes(steps(waited=0.05, seconds=0.05, count=10)) == []
    only_first = Progress(replica="chief-0", windows=steps(waited=9.0).windows[:1])
    assert codes(only_first) == [], "in the first step frameworks compile"


def test_what_is_old_does_not_count() -> None:
    slow, quick = steps(waited=0.09).windows[1], steps(waited=0.0, count=4000).windows[1]
    later = Window(**{**{name: getattr(quick, name) for name in quick.__slots__}, "step": 5001, "at": 501.0})
    assert codes(Progress(replica="chief-0", windows=[slow, later])) == []


def test_saving_and_evaluating_are_no_waiting_for_data() -> None:
    assert codes(steps(aside=80.0, saving=1.0)) == [], "it evaluates nearly half of the time"
    (found,) = findings(Evidence(training=[steps(aside=30.0, saving=25.0)]))
    assert found.code == "SAVES_TOO_OFTEN" and found.evidence == ("25.0 s of 130 s",)


def test_exchanging_gradients_takes_long_on_all_or_is_one_s_fault() -> None:
    both = [steps(name, together=0.05) for name in ("chief-0", "worker-0")]
    assert codes(*both) == ["COMMUNICATION_BOUND"]
    assert codes(steps("chief-0", together=0.05), steps("worker-0", together=0.001)) == ["STRAGGLER"]
    assert codes(steps(together=0.05)) == [], "it is alone"


def test_tiny_steps() -> None:
    assert codes(steps(seconds=0.002, count=5000, batch=1)) == ["TINY_STEPS"]
    assert codes(steps(seconds=0.002, count=5000, batch=64)) == [] == codes(steps(seconds=0.05, batch=1))
    assert codes(steps(seconds=0.002, count=5000, batch=0)) == [], "how many examples is not known"


def test_standing_still() -> None:
    (found,) = findings(Evidence(quiet={"worker-1": 700.0}))
    assert found.code == "HANGS" and "worker-1 has stood still for 700 s" in found.text


def line(**more: object) -> str:
    told = {"t": 10.0, "seconds": 10.0, "cpus": 2.0, "of_cpus": 8, "memory_bytes": 5, "read_bytes_per_second": 100}
    return json.dumps({**told, **more})


def test_what_processes_use_is_read_over_the_last_minutes() -> None:
    lines = [
        ("a", line(t=10.0, cpus=9.0)),
        ("a", line(t=1000.0)),
        ("a", line(t=1030.0, seconds=30.0, cpus=4.0, memory_bytes=9)),
    ]
    found = uses_of([*lines, ("b", line())])
    assert found["a"] == Use(cpus=3.5, of_cpus=8, memory_bytes=9.0, read_bytes_per_second=100.0) and set(found) == {
        "a",
        "b",
    }


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text() | st.floats().map(lambda x: line(cpus=x, t=x)))))
def test_whatever_is_told_of_use_there_is_an_answer(lines: list[tuple[str, str]]) -> None:
    for use in uses_of(lines).values():
        assert use.cpus >= 0 and math.isfinite(use.cpus)
