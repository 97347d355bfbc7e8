"""Reads a file of cases. Everything in it has to be known: a key that is misspelt must not pass in silence.

The layout itself is told at the top of cases.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .expect import CHECKS
from .fill import BUILT_IN, names_in

REQUEST_KEYS = frozenset({"method", "path", "query", "headers", "body", "raw_body"})
STEP_KEYS = REQUEST_KEYS | {"status", "expect_body", "save"}
POLL_KEYS = frozenset({"path", "query", "headers", "until", "seconds"})
CASE_KEYS = REQUEST_KEYS | {"id", "name", "basis", "ref", "hold", "setup", "expect"}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

Table = dict[str, Any]


class BadFile(Exception):
    """The file is not in the layout; says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to be done before the case: a request, or, with `until`, one that is repeated until its answer is so."""

    request: Table
    status: tuple[int, ...] = (200,)
    expect_body: Any = None
    save: Mapping[str, str]
    until: Mapping[str, list[Any]] | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case."""

    id: str
    name: str
    hold: bool
    setup: tuple[Step, ...]
    request: Table
    expect: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """All cases of a file, and the headers that each of their requests has."""

    headers: Mapping[str, str]
    cases: tuple[Case, ...]


def read_cases(path: Path) -> CaseFile:
    """Read a file. Raises BadFile."""
    try:
        whole = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(f"{path} is not YAML: {error}") from None
    try:
        whole = _table(whole, {"version", "defaults", "cases"}, "the file")
        if whole.get("version", 1) != 1:  # a file that does not say is of this one
            raise BadFile(f"version 1 is needed, not {whole.get('version')!r}")
        defaults = _table(whole.get("defaults", {}), None, "defaults")  # what is not `headers` is there for its anchor
        cases = tuple(_case(value, n) for n, value in enumerate(_list(whole.get("cases"), "cases"), 1))
        twice = {case.id for case in cases if [c.id for c in cases].count(case.id) > 1}
        if twice or not cases:
            raise BadFile(f"given twice: {', '.join(sorted(twice))}" if twice else "there are no cases")
        return CaseFile(headers=_texts(defaults.get("headers", {}), "defaults.headers"), cases=cases)
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from None


def _case(value: Any, n: int) -> Case:
    where = f"case {value['id']}" if isinstance(value, dict) and "id" in value else f"case number {n}"
    found = _table(value, CASE_KEYS, where, needs={"id", "name", "method", "path", "expect"})
    steps = tuple(_step(step, f"{where}, setup {m}") for m, step in enumerate(_list(found.get("setup", []), where), 1))
    expect = _table(found["expect"], CHECKS.keys(), f"{where}, expect")
    if not expect:
        raise BadFile(f"{where} expects nothing")
    _check_expect(expect, where)
    if not isinstance(found.get("hold", False), bool):
        raise BadFile(f"{where}: hold is true or false")
    _check_names(found, where)
    return Case(
        id=str(found["id"]),
        name=str(found["name"]),
        hold=found.get("hold", False),
        setup=steps,
        request=_request(found, where),
        expect=expect,
    )


def _step(value: Any, where: str) -> Step:
    found = _table(value, STEP_KEYS | {"poll"}, where)
    save = _texts(found.get("save", {}), f"{where}, save")
    if "poll" in found:
        _table(found, {"poll", "save", "expect_body"}, where)
        poll = _table(found["poll"], POLL_KEYS, f"{where}, poll", needs={"path", "until", "seconds"})
        until = _table(poll["until"], None, f"{where}, until")
        if not until or not all(isinstance(values, list) for values in until.values()):
            raise BadFile(f"{where}: until is a table of paths, each with a list of values")
        if not isinstance(poll["seconds"], int | float):
            raise BadFile(f"{where}: seconds is a number")
        return Step(
            request=_request({"method": "GET", **poll}, where),
            expect_body=found.get("expect_body"),
            save=save,
            until=until,
            seconds=poll["seconds"],
        )
    _table(found, STEP_KEYS, where, needs={"method", "path"})
    return Step(
        request=_request(found, where),
        status=_statuses(found.get("status", 200), where),
        expect_body=found.get("expect_body"),
        save=save,
    )


def _request(found: Table, where: str) -> Table:
    """The request's own keys."""
    if found["method"] not in METHODS:
        raise BadFile(f"{where}: no method {found['method']!r}")
    if not isinstance(found["path"], str) or not found["path"].startswith("/"):
        raise BadFile(f"{where}: a path begins with /")
    if "body" in found and "raw_body" in found:
        raise BadFile(f"{where} has a body and a raw_body")
    if not isinstance(found.get("raw_body", ""), str | bytes):
        raise BadFile(f"{where}: raw_body is a text")
    _table(found.get("query", {}), None, f"{where}, query")
    _texts(found.get("headers", {}), f"{where}, headers")
    return {key: found[key] for key in REQUEST_KEYS if key in found}


def _check_expect(expect: Table, where: str) -> None:
    if "status" in expect:
        _statuses(expect["status"], where)
    for key in ("match", "length", "differs"):
        _table(expect.get(key, {}), None, f"{where}, {key}")
    for path, pattern in expect.get("match", {}).items():
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise BadFile(f"{where}: the pattern of {path} is none: {error}") from None
    if not all(isinstance(path, str) for path in _list(expect.get("absent", []), f"{where}, absent")):
        raise BadFile(f"{where}: absent is a list of paths")
    if not all(type(count) is int for count in expect.get("length", {}).values()):
        raise BadFile(f"{where}: a length is a number")
    for key in ("violation", "message_prefix"):
        if not isinstance(expect.get(key, ""), str):
            raise BadFile(f"{where}: {key} is a text")


def _check_names(found: Table, where: str) -> None:
    """Every `${NAME}` is built in, or was saved by a step before."""
    known = set(BUILT_IN)
    for step in [*found.get("setup", []), {key: part for key, part in found.items() if key != "setup"}]:
        if unknown := set(names_in(step)) - known:
            raise BadFile(f"{where}: nobody fills in {', '.join(f'${{{name}}}' for name in sorted(unknown))}")
        known |= step.get("save", {}).keys()


def _statuses(value: Any, where: str) -> tuple[int, ...]:
    found = value if isinstance(value, list) else [value]
    if not found or not all(type(status) is int for status in found):
        raise BadFile(f"{where}: a status is a number, or a list of numbers")
    return tuple(found)


def _table(value: Any, known: Iterable[str] | None, where: str, *, needs: Iterable[str] = ()) -> Table:
    if not isinstance(value, dict):
        raise BadFile(f"{where} is not a table")
    if known is not None and (unknown := [key for key in value if key not in known]):
        raise BadFile(f"{where} has the unknown key {unknown[0]!r}; there are {', '.join(sorted(known))}")
    if missing := sorted(set(needs) - value.keys()):
        raise BadFile(f"{where} has no {missing[0]}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadFile(f"{where}: a list is needed")
    return value


def _texts(value: Any, where: str) -> dict[str, str]:
    return {str(key): str(part) for key, part in _table(value, None, where).items()}


class _Loader(yaml.SafeLoader):
    """YAML as JSON has it: a time stays a text. A key that is written twice is an error."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Look at the keys as they are written, before those that are merged in join them."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        written = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if twice := [key for key in written if written.count(key) > 1]:
            raise yaml.composer.ComposerError(None, None, f"the key {twice[0]!r} is given twice", node.start_mark)
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
