"""Lines as entries, and what filters find in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.dialects.logging_v2.entries import (
    Subject,
    Told,
    check,
    entry,
    judge,
    moments,
    program_line,
    service_line,
)
from stoker.api.dialects.logging_v2.service_lines import ServiceLine
from stoker.api.dialects.logging_v2.times import nanoseconds, timestamp
from stoker.api.filters import Comparison, comparisons, read_filter
from stoker.core.convention import Convention
from stoker.core.errors import BadSpec
from stoker.store.log_file import LogLine
from tests.builders import a_job

MOMENT = 1_795_176_000_123_456
SUBJECT = Subject.of(a_job("J", workers=2, ps=1))


def a_line(text: str = "Epoch 1", *, replica: str = "worker-1", stream: str = "out", moment: int = MOMENT) -> Told:
    """A line of a replica."""
    line = LogLine(1387, "p/J.2", replica, 4, 1_795_176_000.1, stream, text, moment)
    return program_line(SUBJECT, line)


def passes(filter: str, told: Told) -> bool:
    """Whether a line passes."""
    return judge(read_filter(filter), SUBJECT)(told)


def test_an_entry() -> None:
    assert entry(SUBJECT, a_line()) == {
        "insertId": "p0000000000001387",
        "timestamp": "2026-11-20T12:00:00.123456Z",
        "receiveTimestamp": "2026-11-20T12:00:00.123456Z",
        "severity": "INFO",
        "logName": "projects/p/logs/worker-replica-1",
        "resource": {"type": "ml_job", "labels": {"job_id": "J", "project_id": "p", "task_name": "worker-replica-1"}},
        "labels": {
            "ml.googleapis.com/job_id": "J",
            "ml.googleapis.com/task_name": "worker-replica-1",
            "stoker/attempt": "2",
        },
        "jsonPayload": {"message": "Epoch 1", "levelname": "INFO", "created": 1_795_176_000.1},
    }


def test_tasks() -> None:
    names = {name: a_line(replica=name).task for name in ("chief-0", "worker-0", "worker-1", "ps-0", "gone-7")}
    assert names == {
        "chief-0": "master-replica-0",
        "worker-0": "worker-replica-0",
        "worker-1": "worker-replica-1",
        "ps-0": "ps-replica-0",
        "gone-7": "gone-7",
    }


def test_a_vertex_job_goes_by_its_number() -> None:
    job = a_job("custom_8423764523458", workers=1)
    subject = Subject.of(replace(job, spec=replace(job.spec, convention=Convention.VERTEX)))
    assert (subject.name, subject.tasks) == (
        "8423764523458",
        {"chief-0": "workerpool0-0", "worker-0": "workerpool1-0"},
    )
    assert Subject.of(job, {"8423764523458"}).name == Subject.of(job).name == "custom_8423764523458"


def test_the_services_own_lines() -> None:
    found = entry(SUBJECT, service_line(SUBJECT, 3, ServiceLine(MOMENT, "ERROR", "The job has failed.")))
    assert (found["insertId"], found["severity"]) == ("s0000000000000003", "ERROR")
    assert found["resource"]["labels"]["task_name"] == "service"
    assert "stoker/attempt" not in found["labels"]


TRUE = [
    'resource.type="ml_job"',
    'resource.type="ml_job" OR resource.type="cloudml_job"',
    'resource.labels.job_id="J"',
    'resource.labels.project_id="p"',
    'resource.labels.task_name="worker-replica-1"',
    'resource.labels.task_name="x" OR labels.task_name="x" OR severity>=DEFAULT',
    'labels."ml.googleapis.com/job_id"="J"',
    'labels."ml.googleapis.com/task_name":worker',
    'labels."stoker/attempt"=2',
    'logName="projects/p/logs/worker-replica-1"',
    "severity>=INFO",
    "severity=info",
    "severity<ERROR",
    "severity=200",
    "severity!=ERROR",
    "textPayload:epoch",
    'textPayload="EPOCH 1"',
    "jsonPayload.message:och",
    "jsonPayload.message:*",
    "jsonPayload.levelname=INFO",
    "NOT labels.nobody:*",
    "-severity>INFO",
    'insertId="p0000000000001387"',
    'insertId>"p0000000000001386"',
    'timestamp="2026-11-20T12:00:00.123456Z"',
    'timestamp="2026-11-20T13:00:00.123456000+01:00"',
    'timestamp<"2026-11-20T12:00:00.123456001Z"',
    'timestamp>"2026-11-20T12:00:00.123455999Z"',
    "timestamp>=2026-11-20",
    'timestamp>"2026-11-20T12:00"',
    '((timestamp="2026-11-20T12:00:00.123456Z" AND insertId>"p0") OR timestamp>"2026-11-20T12:00:00.123456Z")',
]
FALSE = [
    'resource.type="gce_instance"',
    'resource.labels.job_id="j"',  # names differ in case, too
    "resource.labels.nothing=1",
    "labels.task_name=worker-replica-1",
    "nothing:*",
    "severity>INFO",
    "textPayload:missing",
    'textPayload="Epoch"',
    "jsonPayload.lineno>0",
    'insertId>"p0000000000001387"',
    'timestamp<"2026-11-20T12:00:00.123456Z"',
    'timestamp>"2026-11-20T12:00:00.123456Z"',
    'timestamp>="2026-11-20T12:00:00.123456001Z"',
]


@pytest.mark.parametrize("filter", TRUE)
def test_what_passes(filter: str) -> None:
    assert passes(filter, a_line())
    assert not passes(f"NOT ({filter})", a_line())


@pytest.mark.parametrize("filter", FALSE)
def test_what_does_not(filter: str) -> None:
    assert not passes(filter, a_line())


def test_fields_of_a_line_that_is_json() -> None:
    line = a_line('{"message": "m", "step": 7, "severity": "NOTICE"}')
    assert passes("jsonPayload.step=7 AND severity=NOTICE AND textPayload=m", line)
    assert entry(SUBJECT, line)["jsonPayload"] == {
        "message": "m",
        "levelname": "NOTICE",
        "created": 1_795_176_000.1,
        "step": 7,
    }


def test_to_the_end_there_is_no_upper_bound() -> None:
    filter = read_filter('timestamp>="2026-01-01T00:00:00Z" AND timestamp<"2026-01-02T00:00:00Z"')
    assert not judge(filter, SUBJECT)(a_line())
    assert judge(filter, SUBJECT, to_the_end=True)(a_line())
    assert not judge(filter, SUBJECT, to_the_end=True)(a_line(moment=1))


@pytest.mark.parametrize("filter", ["timestamp>yesterday", "timestamp>2026-13-01", "severity=LOUD", 'timestamp=""'])
def test_what_is_no_value_is_refused(filter: str) -> None:
    with pytest.raises(BadSpec) as refused:
        check(read_filter(filter))
    assert refused.value.violations[0].field == "filter"


@given(st.integers(0, 2**56))
def test_times_come_back_exactly(moment: int) -> None:
    text = timestamp(moment)
    assert len(text) == len("2026-11-20T12:00:00.123456Z")
    assert nanoseconds(Comparison(("timestamp",), "=", text)) == moment * 1000
    assert passes(f'timestamp="{text}"', a_line(moment=moment))
    assert moments(read_filter(f'timestamp="{text}"')) == (moment, moment)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)), st.integers(0, 999), st.data())
def test_the_moments_of_a_filter_leave_out_nothing_that_passes(time: datetime, nanos: int, data: Any) -> None:
    """Bounds between two microseconds included."""
    text = f"{time.isoformat(timespec='microseconds')}{nanos:03d}Z"
    filter = read_filter(
        data.draw(st.sampled_from(["timestamp{}X", "NOT timestamp{}X", "a=1 OR timestamp{}X"]))
        .format(data.draw(st.sampled_from(["<", "<=", "=", ">=", ">"])))
        .replace("X", f'"{text}"')
    )
    at = nanoseconds(next(c for c in comparisons(filter) if c.field == "timestamp")) // 1000
    low, high = moments(filter)
    for moment in (at - 1, at, at + 1):
        if judge(filter, SUBJECT)(a_line(moment=moment)):
            assert low <= moment and (high is None or moment <= high)
