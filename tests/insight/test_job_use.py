"""What a job has really used."""

from __future__ import annotations

import json
import math

from stoker.insight.job_use import Seen, Used, used_by
from stoker.insight.training_steps import Progress, progress_of

NAN = math.nan
GIB = float(1 << 30)


def training(*replicas: str, examples: int = 32, waited: float | None = None) -> list[Progress]:
    """Replicas that have done ten steps in two seconds."""
    line = {"t": 1.0, "step": 11, "steps": 10, "seconds": 2.0, "longest": 0.2, "examples": 10 * examples}
    return progress_of([(name, json.dumps({**line, "waited": waited, "together": None})) for name in replicas])


def test_the_peak_is_of_the_gpu_that_used_most_and_gaps_count_for_nothing() -> None:
    seen = [
        Seen(memory_bytes=[NAN, 3e9, 5e9, NAN], total_bytes=16e9, busy_percent=[NAN, 80.0, 100.0], sm_ratio=[0.5]),
        Seen(memory_bytes=[2e9, 4e9], total_bytes=16e9, busy_percent=[90.0]),
    ]
    found = used_by(seen, training("chief-0", "worker-0"))
    assert (found.gpus, found.peak_bytes, found.is_upper_bound, found.busy_percent, found.sm_ratio) == (
        2,
        5e9,
        False,
        90,
        0.5,
    )
    assert (found.batch, found.examples_per_second) == (64, 320.0), "of both replicas together"
    assert found.words == ()


def test_memory_that_was_taken_in_advance_is_an_upper_bound() -> None:
    jax = Seen(memory_bytes=[1e9, *[12e9] * 9], total_bytes=16e9, busy_percent=[95.0])
    found = used_by([jax], training("chief-0"))
    assert found.is_upper_bound and "XLA_PYTHON_CLIENT_PREALLOCATE=false" in found.words[0]
    grows = Seen(memory_bytes=[1e9, 5e9, 8e9, 12e9], total_bytes=16e9, busy_percent=[95.0])
    assert not used_by([grows], training("chief-0")).is_upper_bound


def test_a_job_without_gpus_says_what_is_known_and_guesses_nothing() -> None:
    found = used_by([], training("chief-0"), host_peak_bytes=7e9, asked_gb=4.0)
    assert found.peak_bytes is None and found.gpus == 0
    assert "was not measured" in found.words[0] and "asked for 4 GB" in found.words[1] and "7 GB" in found.words[2]


def test_gpus_that_nobody_sampled() -> None:
    found = used_by([Seen(), Seen(memory_bytes=[NAN])], [])
    assert found == Used(gpus=2, words=found.words) and found.words[0] == "its GPUs were not sampled while it ran"
    assert "its batch is not known" in found.words[1]


def test_a_job_that_waits_for_data_needs_no_quicker_gpu() -> None:
    seen = [Seen(memory_bytes=[1e9], total_bytes=16e9, busy_percent=[20.0])]
    assert "a quicker GPU would wait longer" in used_by(seen, training("chief-0", waited=1.0)).words[0]
    assert "a smaller one may be as quick" in used_by(seen, training("chief-0", waited=0.0)).words[0]


def test_steps_without_examples_tell_no_batch() -> None:
    assert used_by([], training("chief-0", examples=0)).batch is None
