"""Which jobs of a list, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.dialects.native.jobs import FILTERABLE
from stoker.api.listing import read_wanted
from stoker.cli.job_list import as_data, filter_of, in_order
from stoker.core.errors import BadSpec

NOW = 1795567173.0


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, ""),
        ({"states": ["running, failed", "QUEUED"]}, "(state=RUNNING OR state=FAILED OR state=QUEUED)"),
        ({"labels": ["team=vision", "urgent"]}, 'labels.team="vision" AND labels:urgent'),
        ({"user": 'a"b', "queue": "lab"}, 'user="a\\"b" AND queue="lab"'),
        ({"since": 3600.0}, 'createTime>="2026-11-24T23:39:33Z"'),
    ],
)
def test_flags_become_a_filter(asked: dict[str, Any], text: str) -> None:
    assert filter_of("", now=NOW, **asked) == text
    both = filter_of("state=FAILED OR jobId:a*", now=NOW, **asked)
    assert both == " AND ".join(filter(None, ("(state=FAILED OR jobId:a*)", text)))
    read_wanted(both, FILTERABLE)


def a_row(name: str, started_at: float | None) -> dict[str, Any]:
    times = {"submitted_at": NOW, "started_at": started_at, "ended_at": None}
    return {"name": name, "owner": "ada", "state": "QUEUED", "queue": "lab", "replicas": 1, "accelerators": 0, **times}


def test_what_lacks_the_field_comes_last_either_way() -> None:
    rows = [a_row("b", None), a_row("c", 1.0), a_row("a", 2.0)]
    assert [row["name"] for row in in_order(rows, "startTime")] == ["c", "a", "b"]
    assert [row["name"] for row in in_order(rows, "~startTime")] == ["a", "c", "b"]
    assert [row["name"] for row in in_order(rows, None)] == ["b", "c", "a"]
    with pytest.raises(BadSpec):
        in_order(rows, "colour")


def test_programs_get_both_names() -> None:
    found = as_data(a_row("b", None))
    assert (found["jobId"], found["name"], found["createTime"]) == ("b", "b", "2026-11-25T00:39:33Z")
    assert "startTime" not in found
