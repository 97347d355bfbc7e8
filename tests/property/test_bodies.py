"""Whatever body is sent: it is refused in the contract's shape, or it is a job that shows what was sent. Never our mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.api.bodies import ANYTHING, SCALARS
from tests.property.doors import Door, a_project, canonical_message, is_of_answers, is_well_formed, quick, schemas


def is_a_job(http: TestClient, door: Door, path: str, answer: httpx.Response, sent: Any) -> None:
    """What was sent is what is shown: by create, by get, and by list, and a second time in the same spelling."""
    shown = answer.json()
    wanted = canonical_message(door, sent, door.schema)
    for field, value in wanted.items():
        if field != "etag":
            assert shown.get(field, {}) == value, field
    (listed,) = http.get(path).json()[door.collection]
    for again in (http.get(f"{path}/{door.name(shown)}").json(), listed):
        again.pop("jobPosition", None)  # it moves
        assert again == shown


def submit(http: TestClient, door: Door, text: str | bytes, **headers: str) -> httpx.Response:
    """Send a body into a project of its own, and look at what comes of it."""
    path = door.path(a_project())
    answer = http.post(path, content=text, headers=headers)
    if answer.status_code == 200:
        is_a_job(http, door, path, answer, json.loads(text))
    else:
        is_well_formed(answer)
        assert http.get(path).json() == {}
    return answer


# Bodies that mean the same.


@st.composite
def respelt(draw: st.DrawFn, door: Door, value: Any, schema: Mapping[str, Any], name: str = "") -> Any:
    """A value in another of the spellings that proto3 JSON, or the contract, has for it."""
    if "$ref" in schema:
        properties = schemas(door.document)[schema["$ref"]]["properties"]
        parts = [(key, draw(respelt(door, part, properties[key], key))) for key, part in value.items()]
        spelt = {snake(key) if draw(st.booleans()) else key: part for key, part in draw(st.permutations(parts))}
        unused = sorted(properties.keys() - value.keys())
        of_answers = [key for key in unused if is_of_answers(properties[key])]
        return {
            **spelt,
            **({draw(st.sampled_from(unused)): None} if unused and draw(st.booleans()) else {}),
            **(
                {draw(st.sampled_from(of_answers)): draw(ANYTHING.filter(is_json))}
                if of_answers and draw(st.booleans())
                else {}
            ),
        }
    if schema.get("type") == "array":
        return [draw(respelt(door, part, schema["items"])) for part in value]
    match schema.get("format", schema["type"]):
        case "boolean":
            return draw(st.sampled_from([value, str(value), str(value).lower()]))
        case "int64" | "int32":
            return draw(st.sampled_from([str(value), int(value), float(value)]))
    if "enum" in schema and name in door.numbers:
        return draw(st.sampled_from([value, door.numbers[name][value]]))
    if "enum" not in schema and re.fullmatch(r"[1-9]\d*(\.\d*[1-9])?", str(value)):
        return draw(st.sampled_from([value, json.loads(value)]))
    return value


def is_json(value: Any) -> bool:
    """Python writes numbers that are none; JSON has no word for them."""
    try:
        return bool(json.dumps(value, allow_nan=False))
    except ValueError:
        return False


def snake(name: str) -> str:
    """`masterConfig` → `master_config`."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


@quick(40)
@given(data=st.data())
def test_every_spelling_means_the_same(http: TestClient, door: Door, data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(door.bodies))
    answer = submit(http, door, json.dumps(data.draw(respelt(door, body, {"$ref": door.schema}))))
    assert answer.status_code == 200, answer.text
    assert answer.json().items() >= body.items()


# Bodies that mean something else, or nothing.


class Twice(dict[str, Any]):
    """A table that says one of its keys twice."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """The value at a place."""
    return at(value[path[0]], path[1:]) if path else value


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The body with one value replaced; `...` takes it out."""
    if not path:
        return new
    part = changed(value[path[0]], path[1:], new)
    if isinstance(value, list):
        return (
            [p for n, p in enumerate(value) if n != path[0]]
            if part is ...
            else [*value[: path[0]], part, *value[path[0] + 1 :]]
        )
    return type(value)({k: part if k == path[0] else v for k, v in value.items() if k != path[0] or part is not ...})


@st.composite
def mutated(draw: st.DrawFn, body: Any) -> Any:
    """A body with one thing changed."""
    path = draw(st.sampled_from(places(body)[1:] or [()]))
    value, other = at(body, path), at(body, draw(st.sampled_from(places(body))))
    table, key = (at(body, path[:-1]), path[-1]) if path else ({}, "")
    if isinstance(key, str) and path and draw(st.integers(0, 3)) == 0:
        name = draw(
            st.sampled_from([snake(key), key.upper(), key + "s", key[1:], "", "\ud800", "__proto__", "region", "args"])
        )
        renamed = {name if k == key else k: v for k, v in table.items()}
        return changed(body, path[:-1], draw(st.sampled_from([renamed, {**renamed, **table}, Twice(table)])))
    new = draw(
        st.sampled_from([..., None, other, [value], {"a": value}, str(value), [], {}, json.dumps(value, default=str)])
        | st.sampled_from([[value] * 101, deep(value, 40), deep(value, 5000), f"{value}\ud800", f"{value}\x00"])
        | st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, 1e300, -0.0, 0.5, True, "x" * 3000, "gs://some-bucket/../x"])
        | SCALARS
        | ANYTHING
    )
    return changed(body, path, new)


def deep(value: Any, levels: int) -> Any:
    """The value, so many lists down."""
    return ("deep", levels, value)


def dumped(value: Any) -> str:
    """A body as text; by hand where Python's own cannot write it."""
    match value:
        case ("deep", int(levels), inner):
            return "[" * levels + dumped(inner) + "]" * levels
        case Twice() if value:
            pairs = [*value.items(), next(iter(value.items()))]
            return "{" + ", ".join(f"{json.dumps(k)}: {dumped(v)}" for k, v in pairs) + "}"
        case dict():
            return "{" + ", ".join(f"{json.dumps(k)}: {dumped(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(dumped, value)) + "]"
        case _:
            return json.dumps(value)


LONG: dict[str, Any] = {
    "a number beyond all floats": 10**400,
    "a name beyond all files": "gs://some-bucket/" + "x" * 5000,
}


@pytest.mark.parametrize("what", LONG)
def test_no_length_is_our_mistake(http: TestClient, door: Door, what: str) -> None:
    for body in door.bodies:
        for path in places(body):
            submit(http, door, json.dumps(changed(body, path, LONG[what])))


@quick(150)
@given(data=st.data())
def test_no_body_is_our_mistake(http: TestClient, door: Door, data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(door.bodies))
    for _ in range(data.draw(st.integers(1, 3))):
        body = data.draw(mutated(body))
    event(str(submit(http, door, dumped(body)).status_code))
