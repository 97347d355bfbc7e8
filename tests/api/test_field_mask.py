"""Partial answers."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.field_mask import partial, read_mask
from stoker.core.errors import BadSpec

LIST = {"jobs": [{"jobId": "a", "in": {"x": 1, "y": 2}}, {"jobId": "b"}], "nextPageToken": "7"}


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ("", LIST),
        ("*", LIST),
        ("nextPageToken", {"nextPageToken": "7"}),
        ("jobs/jobId", {"jobs": [{"jobId": "a"}, {"jobId": "b"}]}),
        ("jobs(jobId)", {"jobs": [{"jobId": "a"}, {"jobId": "b"}]}),
        (
            "jobs(jobId,in/y), nextPageToken",
            {"jobs": [{"jobId": "a", "in": {"y": 2}}, {"jobId": "b"}], "nextPageToken": "7"},
        ),
        ("*/in(x)", {"jobs": [{"in": {"x": 1}}, {}], "nextPageToken": "7"}),
        ("nothing", {}),
    ],
)
def test_what_was_asked_for_is_left(fields: str, answer: Any) -> None:
    assert partial(LIST, read_mask(fields)) == answer


@pytest.mark.parametrize(
    "fields", ["jobs(", "jobs)", "a,,b", ",", "a//b", "a b", "a;b", "a(b)c", "()", "a/" * 5000 + "a"]
)
def test_what_is_no_mask_is_refused(fields: str) -> None:
    with pytest.raises(BadSpec) as refused:
        read_mask(fields)
    assert refused.value.violations[0].field == "fields"


def test_fields_are_named_as_in_a_field_mask_too() -> None:
    """`a.b` for `a/b`, and snake_case."""
    answer = {"jobs": [{"jobId": "j", "trainingInput": {"scaleTier": "BASIC", "region": "r"}}], "nextPageToken": "t"}
    wanted = {"jobs": [{"jobId": "j", "trainingInput": {"region": "r"}}]}
    for fields in (
        "jobs(jobId,trainingInput/region)",
        "jobs(job_id,training_input.region)",
        "jobs.jobId,jobs.trainingInput.region",
    ):
        assert partial(answer, read_mask(fields)) == wanted
