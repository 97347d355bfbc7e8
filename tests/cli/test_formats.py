"""gcloud's --format."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from stoker.cli.formats import formatted
from stoker.core.errors import BadSpec

JOB: dict[str, Any] = {
    "jobId": "j",
    "trainingInput": {"region": "r", "args": ["a"], "n": 3},
    "message": "x\x1b[2J\x1b[31my",
}


def test_json_and_yaml() -> None:
    assert json.loads(formatted(JOB, "json")) == yaml.safe_load(formatted(JOB, "yaml")) == JOB
    assert "\x1b" not in formatted(JOB, "json") + formatted(JOB, "yaml")


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ("value(jobId)", "j"),
        ("value(jobId,trainingInput.region)", "j\tr"),
        ("value( jobId , nothing )", "j\t"),
        ("value(trainingInput.args)", '["a"]'),
        ("value(trainingInput.n)", "3"),
        ("value(jobId.deeper)", ""),
        ("value(message)", "xy"),
    ],
)
def test_values(shape: str, shown: str) -> None:
    assert formatted(JOB, shape) == shown


def test_a_row_for_each_of_a_list() -> None:
    assert formatted([{"a": 1}, {"a": 2}], "value(a)") == "1\n2"


@pytest.mark.parametrize("shape", ["table", "value", "value()", "csv(a)", "value(a;b)", "JSON"])
def test_a_form_that_we_do_not_know_is_refused(shape: str) -> None:
    with pytest.raises(BadSpec):
        formatted(JOB, shape)
