"""The memory that `stoker choose` estimates, beside that of real models which are trained here."""

from __future__ import annotations

import sys

import pytest

from benchmarks.memory_estimates import CASES, LEAST, MOST, measured
from stoker.hardware.choosing.training_memory import estimate

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc"),
]
QUICK = ("torch MLP, Adam, fp32", "torch transformer, SGD, fp32", "JAX transformer, SGD, fp32")


@pytest.mark.parametrize("name", QUICK)
def test_the_estimate_is_near_what_training_takes(name: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    found = measured(case)
    said = estimate(case.work(found), is_gpu=False)
    assert LEAST <= said.expected_bytes / found["peak_bytes"] <= MOST
    assert said.low_bytes <= found["peak_bytes"] <= said.high_bytes
