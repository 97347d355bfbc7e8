"""What lies before a job, in lines for people."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stoker.cli.outlook import about, clock, duration, explained, planned

NOON = time.mktime((2026, 6, 15, 12, 0, 0, 0, 0, -1))
HOUR = 3600.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s"),
        (40.4, "40 s"),
        (100, "2 min"),
        (5300, "88 min"),
        (11400, "3 h 10 min"),
        (10800, "3 h"),
        (100000, "28 h"),
        (187200, "2 days 4 h"),
        (864000, "10 days"),
    ],
)
def test_durations_are_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (90, "12:01:30"),
        (2 * HOUR, "14:00"),
        (21 * HOUR, "tomorrow 09:00"),
        (72 * HOUR, "Thu 18 Jun 12:00"),
        (9000 * HOUR, "25 Jun 2027"),
    ],
)
def test_moments_are_local_time_as_near_as_it_matters(later: float, words: str) -> None:
    assert clock(NOON + later, NOON) == words


def moments(*later: float | None) -> dict[str, float | None]:
    """So much later than noon."""
    at = (None if seconds is None else NOON + seconds for seconds in later)
    return dict(zip(("low", "middle", "high"), at, strict=True))


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (moments(0, 0, 0), "now"),
        (moments(0, 0, HOUR), "in a moment, or until 13:00"),
        (moments(0, 0, None), "in a moment, or later"),
        (moments(HOUR, 2 * HOUR, 3 * HOUR), "about 14:00 (13:00 to 15:00)"),
        (moments(2 * HOUR, 2 * HOUR, 2 * HOUR), "about 14:00"),
        (moments(60, 90, 150), "about 12:01:30, in 2 min (12:01:00 to 12:02:30)"),
        (moments(HOUR, 2 * HOUR, None), "about 14:00 (13:00 at the earliest; how late is not known)"),
        (moments(HOUR, None, None), "not before 13:00"),
        (moments(None, None, None), "not known"),
        (moments(None, None, HOUR), "not known yet; 13:00 at the latest"),
    ],
)
def test_intervals(at: dict[str, float | None], words: str) -> None:
    assert about(at, NOON) == words


def starts(*later: float | None, waits_for: str = "") -> dict[str, Any]:
    return {
        "at": moments(*later),
        "draws": 24,
        "not_started": 0,
        "played_until": NOON + 9 * HOUR,
        "basis": "played 24 times",
        "waits_for": waits_for,
    }


def an_answer(**changes: Any) -> dict[str, Any]:
    """Of a job that waits for one that runs."""
    return {
        "state": "QUEUED",
        "code": "NO_ROOM",
        "text": "needs 1 × 4 T4, and not enough is free now",
        "action": "wait",
        "position": 2,
        "attempts": [],
        "diagnosis": None,
        "running_since": None,
        "ended_at": None,
        "as_of": NOON,
        "ahead": ["local/first", "other/second"],
        "holders": [{"job": "local/run", "accelerators": 4.0, "ends": moments(HOUR, HOUR, HOUR), "basis": "x"}],
        "quota": None,
        "starts": starts(HOUR, 2 * HOUR, 3 * HOUR, waits_for="local/run"),
        "what_if": [
            {"text": "as preemptible", "starts": starts(0, 0, 0), "sooner_seconds": 7200.0},
            {"text": "on V100", "starts": starts(0, 60, 120), "sooner_seconds": 7140.0},
        ],
        "lasts": {"basis": "from 34 runs of its name"},
        "ends": None,
        **changes,
    }


def test_why_a_job_waits() -> None:
    assert list(explained(an_answer(), "j", "local")) == [
        "j waits: needs 1 × 4 T4, and not enough is free now.",
        "  place    2 in the queue, behind first, other/second",
        "  held by  run (4 GPUs, ends about 13:00)",
        "  starts   about 14:00 (13:00 to 15:00), when run ends",
        "           played 24 times",
        "  sooner   as preemptible: now, 2 h sooner",
        "           on V100: about 12:01:00, in 60 s (12:00:00 to 12:02:00), 1 h 59 min sooner",
        "  → wait",
    ]


def test_the_quota_is_told_and_what_was_not_played_to_its_end() -> None:
    quota = {"queue": "vision", "resource": "GPU", "held": 8.0, "own": 8.0, "asked": 4.0}
    lines = list(explained(an_answer(quota=quota, starts=starts(None, None, None), what_if=[]), "j", "local"))
    assert "  quota    vision holds 8 of its 8 GPU, and this one asks for 4" in lines
    assert "  starts   not before 21:00: so far it was played" in lines


def test_of_one_that_runs_and_of_one_that_has_ended() -> None:
    running = an_answer(
        state="RUNNING", code="", text="", running_since=NOON - HOUR, ends=moments(HOUR, HOUR, 2 * HOUR), starts=None
    )
    assert list(explained(running, "j", "local")) == [
        "j is RUNNING since 11:00 (60 min).",
        "  ends     about 13:00 (13:00 to 14:00); from 34 runs of its name",
    ]
    past = [{"number": 1, "cause": "REPLICA_FAILED", "detail": "it fell\nover"}]
    died_of = {
        "code": "CUDA_OOM",
        "title": "the GPU has too little memory for it",
        "replica": "worker-0",
        "node": "n7",
        "evidence": "CUDA out of memory. Tried to allocate 2 GiB.",
        "fix": "use a smaller batch",
        "decision": "not tried again: the same would happen again",
    }
    failed = an_answer(
        state="FAILED", code="", text="it fell", ended_at=NOON - 2 * HOUR, attempts=past, diagnosis=died_of
    )
    assert list(explained(failed, "j", "local")) == [
        "j is FAILED, ended 10:00. it fell",
        "  worker-0 on n7: the GPU has too little memory for it (CUDA_OOM)",
        "    CUDA out of memory. Tried to allocate 2 GiB.",
        "    not tried again: the same would happen again",
        "    → use a smaller batch",
        "  attempt 1: REPLICA_FAILED it fell",
        "  → see its output: stoker logs j",
    ]


def a_plan(**changes: Any) -> dict[str, Any]:
    now = time.time()
    at = {"low": now, "middle": now, "high": now}
    return {
        "name": "j",
        "project": "local",
        "is_free": True,
        "reason": "",
        "machines": [
            {
                "role": "chief",
                "count": 1,
                "machine_type": "",
                "vcpus": 1.0,
                "accelerators": 0.5,
                "accelerator": "NVIDIA_TESLA_T4",
            }
        ],
        "places": [{"role": "chief", "replicas": 1, "node": "n0", "devices": ["0"]}],
        "ahead": [],
        "starts": {"at": at, "basis": "free", "waits_for": "", "played_until": now},
        "lasts": {
            "low": 3000.0,
            "middle": 3600.0,
            "high": 7200.0,
            "known_runs": 34,
            "basis": "from 34 runs of its name",
        },
        "limit_seconds": 604800.0,
        "cost": {
            "usd_per_hour": 2.0,
            "low_usd": 1.67,
            "middle_usd": 2.0,
            "high_usd": 4.0,
            "at_most_usd": 336.0,
            "price_as_of": "2025-01-01",
            "notes": [],
        },
        "what_if": [],
        **changes,
    }


def test_what_would_come_of_a_job() -> None:
    assert list(planned(a_plan())) == [
        "j would start now.",
        "  machines 1 chief on 1 vCPU + 0.5 NVIDIA_TESLA_T4",
        "  places   chief on n0 (0)",
        "  runs     about 60 min (50 min to 2 h), from 34 runs of its name; 7 days at most",
        "  costs    $2.00 an hour, about $2.00 in all ($1.67 to $4.00), as Google Cloud sells it (prices of 2025-01-01)",
        "  Nothing was submitted: leave --dry-run out to do so.",
    ]


def test_what_is_not_free_is_not_there_yet() -> None:
    lines = list(planned(a_plan(is_free=False, reason="others are before it", ahead=["local/k"])))
    assert lines[0] == "j would start in a moment. It would wait: others are before it." and "  behind   k" in lines


def test_what_is_not_known_is_said() -> None:
    unknown = {
        "usd_per_hour": 2.0,
        "middle_usd": None,
        "at_most_usd": 336.0,
        "price_as_of": "2025-01-01",
        "notes": ["x"],
    }
    lines = list(planned(a_plan(lasts=None, cost=unknown, starts=None)))
    assert lines[0] == "j would be queued." and any("$336.00 by its limit" in line for line in lines)
    assert any(line.startswith("  runs     how long is not known") for line in lines)
    unpriced = {"usd_per_hour": None, "notes": ["the chief names no machine type"]}
    assert "  costs    not known: the chief names no machine type" in list(planned(a_plan(cost=unpriced)))
