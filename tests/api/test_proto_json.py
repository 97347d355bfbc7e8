"""proto3 JSON: what is accepted, what it becomes, and that everything wrong is told at once, with its path."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.proto_json import (
    BOOL,
    DOUBLE,
    DURATION,
    INT32,
    INT64,
    MOST_VIOLATIONS,
    STRING,
    Any_,
    Enum,
    ListOf,
    MapOf,
    Message,
    OutputOnly,
    snake,
)
from stoker.core.errors import Violation

COLOUR = Enum({"RED": 0, "BLUE": 5})
INNER = Message("InnerPart", {"someCount": INT64})
OUTER = Message(
    "OuterPart",
    {
        "aText": STRING,
        "anInt": INT32,
        "aNumber": DOUBLE,
        "aFlag": BOOL,
        "aTime": DURATION,
        "aColour": COLOUR,
        "manyParts": ListOf(INNER),
        "aTable": MapOf(STRING),
        "aPart": INNER,
        "whatever": Any_(),
        "answered": OutputOnly(),
    },
)


def read(value: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The canonical form, and path → what is wrong."""
    violations: list[Violation] = []
    found = OUTER.read(value, "", violations)
    return found, {v.field: v.description for v in violations}


@pytest.mark.parametrize("name", ["someCount", "some_count"])
def test_both_spellings_are_taken_and_one_is_shown(name: str) -> None:
    assert read({"aPart": {name: 3}}) == ({"aPart": {"someCount": "3"}}, {})


@pytest.mark.parametrize("value", ["3", 3, 3.0, "+3"])
def test_int64_is_number_or_text_and_shown_as_text(value: Any) -> None:
    assert read({"aPart": {"someCount": value}})[0] == {"aPart": {"someCount": "3"}}


@pytest.mark.parametrize("value", ["three", 3.5, True, [], {}, "", "3.0", "³", 2**63, "9" * 30, 1e300, float("inf")])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    assert list(read({"aPart": {"someCount": value}})[1]) == ["a_part.some_count"]


def test_int32_is_shown_as_a_number_and_has_its_bounds() -> None:
    assert read({"anInt": "-7"})[0] == {"anInt": -7}
    assert list(read({"anInt": 2**31})[1]) == ["an_int"]


@pytest.mark.parametrize(("value", "shown"), [(2.11, "2.11"), (7, "7"), ("x", "x"), ("", "")])
def test_a_number_may_stand_for_a_text(value: Any, shown: str) -> None:
    assert read({"aText": value})[0] == {"aText": shown}


@pytest.mark.parametrize("value", [True, [], {}, "a\x00b", "\ud800", float("nan"), float("inf")])
def test_what_no_program_can_be_handed_is_no_text(value: Any) -> None:
    assert list(read({"aText": value})[1]) == ["a_text"]


def test_a_flag_may_be_a_text() -> None:
    assert [read({"aFlag": v})[0]["aFlag"] for v in (True, "true", "True", False, "false")] == [True] * 3 + [False] * 2
    assert all(read({"aFlag": v})[1] for v in ("yes", 1, 0, "", []))


def test_an_enum_is_a_name_or_its_number() -> None:
    assert read({"aColour": "BLUE"})[0] == read({"aColour": 5})[0] == {"aColour": "BLUE"}
    assert "did you mean BLUE?" in read({"aColour": "blu"})[1]["a_colour"]
    assert all(read({"aColour": v})[1] for v in (1, True, "blue", [], "x" * 100_000))


@pytest.mark.parametrize("value", ["7200s", "3.5s", "0s", "0.000000001s"])
def test_durations(value: str) -> None:
    assert read({"aTime": value}) == ({"aTime": value}, {})


@pytest.mark.parametrize(
    "value", ["7200", 7200, "2h", "-1s", "1e3s", "٣s", ".5s", "3.s", "1.0000000001s", "9" * 13 + "s", None]
)
def test_what_is_no_duration(value: Any) -> None:
    found, wrong = read({"aTime": value})
    assert found == {} and (value is None or "seconds" in wrong["a_time"])


def test_a_number_is_finite() -> None:
    assert read({"aNumber": "1.5"})[0] == {"aNumber": 1.5}
    assert all(read({"aNumber": v})[1] for v in (True, "x", float("inf"), [], 10**400))


def test_null_is_nothing() -> None:
    assert read({"aText": None, "aPart": {"someCount": None}}) == ({"aPart": {}}, {})


def test_output_only_fields_are_ignored() -> None:
    assert read({"answered": {"no": ["matter", "what"]}}) == ({}, {})


def test_what_is_kept_is_kept() -> None:
    assert read({"whatever": [1, {"a": None}]})[0] == {"whatever": [1, {"a": None}]}


def test_everything_wrong_is_told_at_once_with_its_path() -> None:
    value = {
        "aTxet": 1,
        "aText": [],
        "manyParts": [{"someCount": "x"}, 7, {"sumCount": 1}],
        "aTable": {"k": []},
        "aPart": "no table",
    }
    wrong = read(value)[1]
    assert list(wrong) == [
        "outer_part",
        "a_text",
        "many_parts[0].some_count",
        "many_parts[1]",
        "many_parts[2]",
        "a_table.k",
        "a_part",
    ]
    assert "no field 'aTxet'; did you mean aText?" in wrong["outer_part"]
    assert "did you mean someCount?" in wrong["many_parts[2]"]
    assert "put it in quotes" in wrong["a_text"]


def test_what_is_no_table_at_all() -> None:
    assert [list(read(value)[1]) for value in ([], "x", 3, None)] == [["outer_part"]] * 4


def test_a_value_is_shown_as_json_has_it_and_short() -> None:
    assert "not true" in read({"aPart": {"someCount": True}})[1]["a_part.some_count"]
    assert len(read({"aPart": {"someCount": "x" * 100_000}})[1]["a_part.some_count"]) < 120
    assert len(read({"x" * 100_000: 1})[1]["outer_part"]) < 300


def test_a_body_that_is_wrong_all_over_costs_no_more_than_a_hundred_lines() -> None:
    violations: list[Violation] = []
    OUTER.read({f"k{n}": n for n in range(100_000)}, "", violations)
    OUTER.read({"manyParts": ["x"] * 100_000}, "", violations)
    assert len(violations) == MOST_VIOLATIONS


@pytest.mark.parametrize(("camel", "snaked"), [("masterConfig", "master_config"), ("jobId", "job_id"), ("a", "a")])
def test_snake(camel: str, snaked: str) -> None:
    assert snake(camel) == snaked
