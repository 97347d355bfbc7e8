"""Runs one case: its setup, its request, and the comparison."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any

import httpx

from stoker.core.errors import StokerError

from .expect import MISSING, Answer, find, is_same, mismatches
from .fill import fill
from .layout import Case, Step
from .target import BUCKET, NotPossible, Target

_PAUSE_SECONDS = 0.1


class Verdict(StrEnum):
    """What became of a case."""

    PASS = "PASS"
    FAIL = "FAIL"
    NOT_YET = "NOT YET"


@dataclass(frozen=True, slots=True)
class Result:
    """A verdict, and the reasons for it."""

    case: Case
    verdict: Verdict
    reasons: tuple[str, ...] = ()


def judge(case: Case, problems: list[str], *, is_unimplemented: bool, not_yet: Mapping[str, str]) -> Result:
    """The rule: who is on the list must fail by a 501, who is not must not fail."""
    if case.id in not_yet and is_unimplemented and problems:
        return Result(case, Verdict.NOT_YET, (not_yet[case.id],))
    if case.id in not_yet:
        on_list = "it is served now: take it off the list NOT_YET"
        if problems:
            on_list = (
                "on the list NOT_YET, but not answered with 501 UNIMPLEMENTED: if it is served, take it off the list"
            )
        return Result(case, Verdict.FAIL, (on_list, *problems))
    if problems and is_unimplemented:
        problems = ["501 UNIMPLEMENTED, and not on the list NOT_YET", *problems]
    return Result(case, Verdict.FAIL if problems else Verdict.PASS, tuple(problems))


class Runner:
    """Runs cases against one server, and those that want it so against one that starts nothing."""

    def __init__(
        self,
        normal: Target,
        holding: Target | None,
        *,
        headers: Mapping[str, str],
        not_yet: Mapping[str, str],
        region: str = "us-central1",
    ) -> None:
        self._normal, self._holding = normal, holding
        self._headers = headers
        self._not_yet = not_yet
        self._region = region
        self._stem, self._numbers = f"conformance-{secrets.token_hex(4)}", count(1)

    def run(self, case: Case) -> Result:
        """Run one case."""
        target = self._holding if case.hold else self._normal
        if target is None:
            return Result(case, Verdict.FAIL, ("it needs a server that starts nothing: --hold-url",))
        once = _Once(target, self._headers, _Values(target, f"{self._stem}-{next(self._numbers)}", self._region))
        try:
            problems = once.problems(case)
        except (httpx.HTTPError, httpx.InvalidURL, StokerError, NotPossible) as error:
            problems = [f"{type(error).__name__}: {error}"]
        unimplemented = any(answer.is_unimplemented for answer in once.answers)
        return judge(case, problems, is_unimplemented=unimplemented, not_yet=self._not_yet)


class _Values(dict[str, Any]):
    """What is filled in. Package and model are made when they are asked for."""

    def __init__(self, target: Target, project: str, region: str) -> None:
        missing = f"{BUCKET}/missing-{secrets.token_hex(8)}.tar.gz"
        super().__init__(P=project, R=region, MISSING_PKG=missing)
        self._target = target

    def __missing__(self, name: str) -> Any:
        self[name] = {"PKG": lambda: self._target.package, "MODEL_DIR": lambda: self._target.model_dir}[name]()
        return self[name]


class _Once:
    """One run of one case."""

    def __init__(self, target: Target, headers: Mapping[str, str], values: _Values) -> None:
        self.answers: list[Answer] = []
        self._target, self._headers, self._values = target, headers, values

    def problems(self, case: Case) -> list[str]:
        """Everything that is not as expected. What a failed setup would have prepared is not looked at."""
        for n, step in enumerate(case.setup, 1):
            if problems := self._step(step):
                return [f"setup {n}, {step.request['method']} {self._path(step.request)}:", *problems]
        answer = self._ask(case.request)
        problems = mismatches(fill(case.expect, self._values), answer)
        return [*problems, _told(answer)] if problems else []

    def _step(self, step: Step) -> list[str]:
        answer = self._ask(step.request) if step.until is None else self._poll(step)
        expect: dict[str, Any] = {"status": list(step.status)}
        if step.expect_body is not None:
            expect["body"] = step.expect_body
        problems = mismatches(fill(expect, self._values), answer)
        if step.until and not problems and not self._has_come(step, answer):
            problems = [f"expected {json.dumps(step.until)} within {step.seconds:g} s"]
        for name, path in step.save.items():
            self._values[name] = find(answer.body, path)
            if self._values[name] is MISSING:
                problems.append(f"expected {path}, to be kept as {name}, came nothing")
        return [*problems, _told(answer)] if problems else []

    def _poll(self, step: Step) -> Answer:
        """The answer as soon as it is so, or the last one."""
        end = time.monotonic() + step.seconds
        while True:
            answer = self._ask(step.request)
            if self._has_come(step, answer) or answer.is_unimplemented or time.monotonic() >= end:
                return answer
            time.sleep(_PAUSE_SECONDS)

    def _has_come(self, step: Step, answer: Answer) -> bool:
        until = fill(dict(step.until or {}), self._values)
        return all(any(is_same(v, find(answer.body, path)) for v in values) for path, values in until.items())

    def _ask(self, request: Mapping[str, Any]) -> Answer:
        filled = fill(dict(request), self._values)
        url = httpx.URL(self._path(request))
        if query := filled.get("query"):
            url = url.copy_merge_params(query)
        content: bytes | None = None
        if "raw_body" in filled:
            content = filled["raw_body"] if isinstance(filled["raw_body"], bytes) else filled["raw_body"].encode()
        elif "body" in filled:
            content = json.dumps(filled["body"]).encode()
        headers = httpx.Headers(dict(self._headers))  # names in any case; null takes one out
        for name, text in filled.get("headers", {}).items():
            headers.pop(name, None)
            if text is not None:
                headers[name] = str(text)
        self.answers.append(self._target.ask(filled["method"], url, headers, content))
        return self.answers[-1]

    def _path(self, request: Mapping[str, Any]) -> str:
        path: str = fill(request["path"], self._values)
        return path


def _told(answer: Answer) -> str:
    text = " ".join(answer.text.split())
    return f"the answer: {answer.status} {text if len(text) <= 1000 else text[:999] + '…'}"
