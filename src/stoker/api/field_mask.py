"""The parameter `fields`: a partial answer, `jobs(jobId,trainingInput/region),nextPageToken` (contract, section 0)."""

from __future__ import annotations

import re
from typing import Any

from stoker.core.errors import BadSpec, Violation

from .proto_json import snake

Mask = dict[str, "Mask"]
"""Name → what is wanted below it; empty: all of it."""

_TOKEN = re.compile(r"\s*([\w-]+|[*(),/.])\s*")
_DEEPEST = 20


def read_mask(fields: str, name: str = "fields") -> Mask:
    """The mask that was asked for. Raises BadSpec; to be read before anything is done, for what is done stays done."""
    return _Reader(fields, name).mask() if fields else {}


def partial(answer: Any, mask: Mask) -> Any:
    """The answer, reduced to the fields that were asked for."""
    if not mask:
        return answer
    if isinstance(answer, list):
        return [partial(item, mask) for item in answer]
    if not isinstance(answer, dict):
        return answer
    wanted = {name: mask.get(name, mask.get(snake(name), mask.get("*"))) for name in answer}
    return {name: partial(answer[name], below) for name, below in wanted.items() if below is not None}


class _Reader:
    """Reads a mask, token by token."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._tokens = _TOKEN.findall(text)
        if _TOKEN.sub("", text):
            raise self._bad()

    def mask(self) -> Mask:
        """All of it."""
        mask = self._list(0)
        if self._tokens:
            raise self._bad()
        return mask

    def _list(self, depth: int) -> Mask:
        """`item,item,…`"""
        mask: Mask = {}
        self._item(mask, depth)
        while self._take(","):
            self._item(mask, depth)
        return mask

    def _item(self, mask: Mask, depth: int) -> None:
        """`name`, `name/item` or `name.item`, or `name(list)`."""
        if depth > _DEEPEST or not self._tokens or self._tokens[0] in "(),/.":
            raise self._bad()
        below = mask.setdefault(self._tokens.pop(0), {})
        if self._take("/") or self._take("."):
            self._item(below, depth + 1)
        elif self._take("("):
            below.update(self._list(depth + 1))
            if not self._take(")"):
                raise self._bad()

    def _take(self, token: str) -> bool:
        found = self._tokens[:1] == [token]
        del self._tokens[: int(found)]
        return found

    def _bad(self) -> BadSpec:
        wanted = "a list of fields, like jobs(jobId,state),nextPageToken"
        return BadSpec([Violation(self._name, f"{self._text[:200]!r} is not {wanted}")])
