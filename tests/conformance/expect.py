"""Compares an answer with what a case expects. One function for each key of `expect`; each tells what it misses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1e-6
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


class Missing:
    """What is found where nothing is."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: `body` is MISSING if it is not JSON."""

    status: int
    body: Any
    text: str

    @property
    def is_unimplemented(self) -> bool:
        """Whether the server says that this is in the contract, and not in it."""
        return self.status == 501 and find(self.body, "error.status") == "UNIMPLEMENTED"


def mismatches(expect: Mapping[str, Any], answer: Answer) -> list[str]:
    """Everything in which the answer is not as expected."""
    return [problem for key, wanted in expect.items() for problem in CHECKS[key](wanted, answer)]


def find(value: Any, path: str) -> Any:
    """The value at a dotted path, with numbers for places in lists; MISSING if there is none. A key may hold dots itself."""
    if not path:
        return value
    words = path.split(".")
    if isinstance(value, list) and words[0].isdecimal() and int(words[0]) < len(value):
        return find(value[int(words[0])], ".".join(words[1:]))
    if isinstance(value, dict):
        for end in range(1, len(words) + 1):
            key = ".".join(words[:end])
            if key in value and (found := find(value[key], ".".join(words[end:]))) is not MISSING:
                return found
    return MISSING


def is_same(wanted: Any, found: Any) -> bool:
    """Equal, numbers within the tolerance; true is not a number."""
    return not any(_differences(wanted, found, "", whole=True))


def _status(wanted: int | list[int], answer: Answer) -> Iterator[str]:
    allowed = wanted if isinstance(wanted, list) else [wanted]
    if answer.status not in allowed:
        yield f"expected status {' or '.join(map(str, allowed))}, came {answer.status}"


def _body(wanted: Any, answer: Answer) -> Iterator[str]:
    yield from _differences(wanted, answer.body, "")


def _match(wanted: Mapping[str, str], answer: Answer) -> Iterator[str]:
    for path, pattern in wanted.items():
        found = find(answer.body, path)
        if found is MISSING or not re.fullmatch(pattern, _as_text(found)):
            yield f"expected {path} to match {pattern}, came {_shown(found)}"


def _absent(wanted: list[str], answer: Answer) -> Iterator[str]:
    for path in wanted:
        found = find(answer.body, path)
        if found is not MISSING and found is not None and found not in ("", [], {}):
            yield f"expected no {path}, came {_shown(found)}"


def _length(wanted: Mapping[str, int], answer: Answer) -> Iterator[str]:
    """A list that is left out is empty: the API leaves empty fields out."""
    for path, count in wanted.items():
        found = find(answer.body, path)
        length = 0 if found is MISSING else len(found) if isinstance(found, list | dict | str) else None
        if length != count:
            yield f"expected {count} items in {path}, came {_shown(found) if length is None else length}"


def _differs(wanted: Mapping[str, Any], answer: Answer) -> Iterator[str]:
    """What is not there at all shows no difference."""
    for path, value in wanted.items():
        found = find(answer.body, path)
        if found is MISSING or is_same(value, found):
            yield f"expected {path} other than {_shown(value)}, came {_shown(found)}"


def _violation(wanted: str, answer: Answer) -> Iterator[str]:
    details = find(answer.body, "error.details")
    bad = [d for d in details if find(d, "@type") == BAD_REQUEST] if isinstance(details, list) else []
    violations = [v for d in bad if isinstance(found := find(d, "fieldViolations"), list) for v in found]
    fields = [find(violation, "field") for violation in violations]
    if wanted not in fields:
        yield f"expected a violation of {wanted}, came {_shown(fields)}"


def _message_prefix(wanted: str, answer: Answer) -> Iterator[str]:
    found = find(answer.body, "error.message")
    if not (isinstance(found, str) and found.startswith(wanted)):
        yield f"expected a message that begins with {_shown(wanted)}, came {_shown(found)}"


CHECKS: Mapping[str, Callable[[Any, Answer], Iterator[str]]] = {
    "status": _status,
    "body": _body,
    "match": _match,
    "absent": _absent,
    "length": _length,
    "differs": _differs,
    "violation": _violation,
    "message_prefix": _message_prefix,
}


def _differences(wanted: Any, found: Any, path: str, *, whole: bool = False) -> Iterator[str]:
    """Where `found` does not hold `wanted`; `whole`: nor anything more."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if whole and wanted.keys() != found.keys():
            yield f"expected the keys {_shown(list(wanted))} in {path or 'the body'}, came {_shown(list(found))}"
        for key, part in wanted.items():
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(part, found.get(key, MISSING), below, whole=whole)
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for n, part in enumerate(wanted):
            yield from _differences(part, found[n], f"{path}.{n}" if path else str(n), whole=whole)
    elif not _equal(wanted, found):
        yield f"expected {path or 'the body'} {_shown(wanted)}, came {_shown(found)}"


def _equal(wanted: Any, found: Any) -> bool:
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (wanted, found)]
    if all(numbers):
        return bool(abs(wanted - found) <= TOLERANCE)
    return type(wanted) is type(found) and bool(wanted == found)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _shown(value: Any) -> str:
    """The value as JSON, cut short."""
    text = repr(value) if value is MISSING else json.dumps(value, default=repr, ensure_ascii=False)
    return text if len(text) <= 300 else text[:299] + "…"
