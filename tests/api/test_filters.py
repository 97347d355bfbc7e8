"""The filter language: what is read, how it binds, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.filters import (
    EVERYTHING,
    NOTHING,
    And,
    Comparison,
    Filter,
    Not,
    Or,
    compare,
    compare_text,
    comparisons,
    possible_range,
    possible_values,
    predicate,
    read_filter,
    read_time,
    simplify,
)
from stoker.core.errors import BadSpec


def matches(filter: Filter, is_true: Callable[[Comparison], bool]) -> bool:
    """What a filter means, written plainly, for `predicate` to be held against."""
    match filter:
        case Comparison():
            return is_true(filter)
        case And():
            return all(matches(part, is_true) for part in filter.parts)
        case Or():
            return any(matches(part, is_true) for part in filter.parts)
        case Not():
            return not matches(filter.part, is_true)


A, B, C = (Comparison((name,), "=", "1") for name in "abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EVERYTHING),
        ("  ", EVERYTHING),
        ("a=1", A),
        ("a = 1", A),
        ('a="1"', A),
        ("(a=1)", A),
        ("a=1 AND b=1", And((A, B))),
        ("a=1 b=1", And((A, B))),
        ("a=1 OR b=1", Or((A, B))),
        ("NOT a=1", Not(A)),
        ("-a=1", Not(A)),
        ("NOT (a=1 OR b=1)", Not(Or((A, B)))),
        # OR binds tighter than AND (aip.dev/160).
        ("a=1 AND b=1 OR c=1", And((A, Or((B, C))))),
        ("(a=1 AND b=1) OR c=1", Or((And((A, B)), C))),
        ("jobId:census*", Comparison(("jobId",), ":", "census*")),
        ("labels.team!=ml", Comparison(("labels", "team"), "!=", "ml")),
        ("labels.my-key:*", Comparison(("labels", "my-key"), ":", "*")),
        ('labels."a.b/c"="x y"', Comparison(("labels", "a.b/c"), "=", "x y")),
        ("createTime>=2026-01-31T12:00:00Z", Comparison(("createTime",), ">=", "2026-01-31T12:00:00Z")),
        ("n>-5", Comparison(("n",), ">", "-5")),
        ('a="say \\"hi\\""', Comparison(("a",), "=", 'say "hi"')),
        ('a=""', Comparison(("a",), "=", "")),
        ("ANDROID=1", Comparison(("ANDROID",), "=", "1")),
        (
            '((timestamp="T" AND insertId>"K") OR timestamp>"T")',
            Or(
                (
                    And((Comparison(("timestamp",), "=", "T"), Comparison(("insertId",), ">", "K"))),
                    Comparison(("timestamp",), ">", "T"),
                )
            ),
        ),
    ],
)
def test_read(text: str, expected: Filter) -> None:
    assert read_filter(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a=",
        "=1",
        "a=1 AND",
        "AND",
        "(a=1",
        "a=1)",
        "a==1",
        'a="1',
        "NOT",
        "OR a=1",
        "a=1 OR",
        "()",
        "a=(b)",
        "a=1,b=2",
        "(" * 100 + "a=1" + ")" * 100,
        "a=1 " * 10_000,
        "\\",
        '"',
        '"":1',
        "a AND b",
    ],
)
def test_refused_with_the_place(text: str) -> None:
    with pytest.raises(BadSpec) as refused:
        read_filter(text)
    assert refused.value.violations[0].field == "filter"


@given(st.text(st.sampled_from('ab=()"\\ :*.-<>!ANDORT1\n'), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_filter(text)
    except BadSpec:
        return
    for comparison in comparisons(found):
        assert comparison.path and all(comparison.path)


def filters() -> st.SearchStrategy[Filter]:
    leaves = st.builds(
        Comparison,
        st.sampled_from([("a",), ("b",)]),
        st.sampled_from(["=", "!=", "<", ">", "<=", ">=", ":"]),
        st.sampled_from(["0", "1", "x y", 'q"', "\\"]),
    )
    return st.recursive(
        leaves,
        lambda f: (
            st.builds(Not, f)
            | st.builds(And, st.lists(f, min_size=2, max_size=3).map(tuple))
            | st.builds(Or, st.lists(f, min_size=2, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )


def written(filter: Filter) -> str:
    """A filter as a user would write it, every part in parentheses."""
    match filter:
        case Comparison():
            value = filter.value.replace("\\", "\\\\").replace('"', '\\"')
            return f'{filter.field}{filter.op}"{value}"'
        case Not():
            return f"NOT ({written(filter.part)})"
        case And():
            return " AND ".join(f"({written(part)})" for part in filter.parts)
        case Or():
            return " OR ".join(f"({written(part)})" for part in filter.parts)


@given(filters())
def test_what_is_written_is_read_back(filter: Filter) -> None:
    assert read_filter(written(filter)) == filter


@given(filters(), st.sampled_from("01"), st.sampled_from("01"))
def test_possible_values_leave_out_nothing_that_passes(filter: Filter, a: str, b: str) -> None:
    have = {"a": a, "b": b}
    possible = possible_values(filter, "a")
    if matches(filter, lambda c: compare_text(have[c.field], c.op, c.value)):
        assert possible is None or a in possible


def test_possible_values() -> None:
    assert possible_values(read_filter("a=1 AND b=2"), "a") == {"1"}
    assert possible_values(read_filter("a=1 OR a=2"), "a") == {"1", "2"}
    assert possible_values(read_filter("a=1 OR b=2"), "a") is None
    assert possible_values(read_filter("NOT a=1"), "a") is None
    assert possible_values(read_filter("a=1 AND a=2"), "a") == frozenset()


def numbers(text: str) -> st.SearchStrategy[Filter]:
    """Filters that compare the fields a and b with whole numbers."""
    leaves = st.builds(
        Comparison,
        st.sampled_from([("a",), ("b",)]),
        st.sampled_from(["=", "!=", "<", ">", "<=", ">=", ":"]),
        st.sampled_from(text.split()),
    )
    return st.recursive(
        leaves,
        lambda f: (
            st.builds(Not, f)
            | st.builds(And, st.lists(f, max_size=3).map(tuple))
            | st.builds(Or, st.lists(f, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )


def is_number_true(a: int, b: int) -> Callable[[Comparison], bool]:
    """What of a filter of numbers is true."""
    return lambda c: compare({"a": a, "b": b}[c.field], c.op, int(c.value))


@given(numbers("1 2 3"), st.integers(0, 4), st.integers(0, 4))
def test_the_possible_range_leaves_out_nothing_that_passes(filter: Filter, a: int, b: int) -> None:
    low, high = possible_range(filter, "a", lambda c: int(c.value))
    if matches(filter, is_number_true(a, b)):
        assert (low is None or low <= a) and (high is None or a <= high)


def test_possible_range() -> None:
    def range_of(text: str) -> tuple[int | None, int | None]:
        return possible_range(read_filter(text), "a", lambda c: int(c.value))

    assert range_of("a>=1 AND a<5 AND b=2") == (1, 4)
    assert range_of("(a=3 AND b>2) OR a>3") == (3, None)
    assert range_of("a=1 OR a=7") == (1, 7)
    assert range_of("a=1 OR b=1") == (None, None)
    assert range_of("NOT a=1") == (None, None)
    assert range_of("a>1 AND a<1") == (2, 0)
    assert range_of("") == (None, None)


@given(numbers("1 2"), st.integers(0, 3), st.integers(0, 3))
def test_what_is_known_may_be_left_out(filter: Filter, a: int, b: int) -> None:
    is_true = is_number_true(a, b)
    rest = simplify(filter, lambda c: is_true(c) if c.field == "a" else None)
    assert all(c.field == "b" for c in comparisons(rest))
    assert matches(rest, is_true) == matches(filter, is_true)
    whole = simplify(filter, is_true)
    assert whole == (EVERYTHING if matches(filter, is_true) else NOTHING)


@given(numbers("1 2"), st.integers(0, 3), st.integers(0, 3))
def test_a_predicate_says_the_same(filter: Filter, a: int, b: int) -> None:
    passes = predicate(filter, lambda c: lambda have: is_number_true(*have)(c))
    assert passes((a, b)) == matches(filter, is_number_true(a, b))


def test_wildcards_stand_for_any_characters() -> None:
    assert compare_text("census_1", ":", "census*")
    assert compare_text("a.b", ":", "a.b") and not compare_text("axb", ":", "a.b")
    assert compare_text("abc", ":", "*b*") and compare_text("", ":", "*")
    assert not compare_text("census", "=", "census*")


@given(st.text("ab", max_size=8), st.text("ab*", max_size=8))
def test_wildcards_are_those_of_a_shell(text: str, pattern: str) -> None:
    assert compare_text(text, ":", pattern) == fnmatchcase(text, pattern)


def test_no_pattern_takes_long() -> None:
    assert not compare_text("a" * 10_000, ":", "*a" * 3_000 + "b")


def test_times() -> None:
    assert read_time(Comparison(("t",), ">", "1970-01-01T00:01:00Z")) == 60
    assert read_time(Comparison(("t",), ">", "1970-01-01T01:00:00.5+01:00")) == 0.5
    for value in ("yesterday", "1970-01-01T00:00:00", "99999999999999", ""):
        with pytest.raises(BadSpec):
            read_time(Comparison(("t",), ">", value))
