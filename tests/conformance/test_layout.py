"""The layout of files: what is filled in, and that nothing that is misspelt passes in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .__main__ import main
from .examples import LEAST, POLL, STEP, a_file
from .fill import fill
from .layout import BadFile, read_cases


def test_what_is_filled_in() -> None:
    values = {"P": "p1", "N": 7, "U": "gs://b/x"}
    assert fill("/v1/${P}/${N}", values) == "/v1/p1/7"
    assert fill({"${P}": ["${N}", "a${REPEAT:x:3}b${REPEAT:yz:2}"]}, values) == {"p1": [7, "axxxbyzyz"]}
    assert fill("${LIST:${U}:2}", values) == ["gs://b/x"] * 2
    assert fill("${LIST:v:0}", values) == []
    assert fill(["${REPEAT:${P}:2}", 3, None, True], values) == ["p1p1", 3, None, True]
    assert fill(r"\d{4}$", values) == r"\d{4}$"
    with pytest.raises(KeyError):
        fill("${Q}", values)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a key": ({"expects": {}}, "case a has the unknown key 'expects'"),
    "a key of expect": ({"expect": {"state": 200}}, "case a, expect has the unknown key 'state'"),
    "nothing expected": ({"expect": {}}, "case a expects nothing"),
    "a key of a step": ({"setup": [{**STEP, "expect": {}}]}, "case a, setup 1 has the unknown key 'expect'"),
    "a key of a poll": (
        {"setup": [{"poll": {**POLL, "every": 1}}]},
        "case a, setup 1, poll has the unknown key 'every'",
    ),
    "a key beside a poll": ({"setup": [{"poll": POLL, "status": 200}]}, "case a, setup 1 has the unknown key 'status'"),
    "a poll for ever": ({"setup": [{"poll": {k: POLL[k] for k in ("path", "until")}}]}, "poll has no seconds"),
    "a poll of no list": ({"setup": [{"poll": {**POLL, "until": {"state": "DONE"}}}]}, "a list of values"),
    "a step without a path": ({"setup": [{"method": "GET"}]}, "case a, setup 1 has no path"),
    "a setup that is none": ({"setup": {}}, "a list is needed"),
    "a method": ({"method": "FETCH"}, "no method 'FETCH'"),
    "a path": ({"path": "v1"}, "a path begins with /"),
    "two bodies": ({"body": {}, "raw_body": "{}"}, "a body and a raw_body"),
    "a status": ({"expect": {"status": "200"}}, "a status is a number"),
    "a pattern": ({"expect": {"match": {"a": "("}}}, "the pattern of a"),
    "a length": ({"expect": {"length": {"a": "2"}}}, "a length is a number"),
    "absent": ({"expect": {"absent": "a"}}, "a list is needed"),
    "hold": ({"hold": "yes"}, "hold is true or false"),
    "a name that nobody gives": ({"path": "/${Q}"}, "nobody fills in ${Q}"),
    "a name that is saved too late": (
        {"setup": [{"method": "GET", "path": "/${E}", "save": {"E": "etag"}}]},
        "nobody fills in ${E}",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_in_the_layout(what: str, tmp_path: Path) -> None:
    change, problem = BAD[what]
    with pytest.raises(BadFile) as refused:
        read_cases(a_file(tmp_path, {**LEAST, **change}))
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is not a table"),
        ("{", "is not YAML"),
        ("version: 2\ncases: []", "version 1 is needed"),
        ("version: 1\ncases: []", "there are no cases"),
        ("version: 1\ncase: []", "unknown key 'case'"),
        ("version: 1\ncases: [7]", "case number 1 is not a table"),
        ("version: 1\ncases: [{id: a, id: b}]", "the key 'id' is given twice"),
        ("version: 1\ncases: [{id: a, <<: *nobody}]", "undefined alias"),
    ],
)
def test_a_file_that_is_none(text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert main([str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}") and problem in said


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_an_id_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="given twice: a"):
        read_cases(a_file(tmp_path, LEAST, LEAST))


def test_what_is_merged_in_may_be_overridden_and_a_time_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(
        "version: 1\n"
        "defaults: {headers: {X: y}, basic: &basic {scaleTier: BASIC, at: 2018-05-29T11:16:03Z}}\n"
        "cases:\n"
        "- {id: a, name: n, method: POST, path: /, body: &more {<<: *basic, scaleTier: CUSTOM}, expect: {status: 200}}\n"
        "- {id: b, name: n, method: POST, path: /, body: {<<: *more, scaleTier: HUGE}, expect: {status: 200}}\n"
    )
    read = read_cases(path)
    tiers = [case.request["body"]["scaleTier"] for case in read.cases]
    assert (tiers, read.headers) == (["CUSTOM", "HUGE"], {"X": "y"})
    assert read.cases[1].request["body"]["at"] == "2018-05-29T11:16:03Z"
