"""The parameter `fields`: a partial answer, `jobs(jobId,trainingInput/region),nextPageToken` (contract, section 0)."""

from __future__ import annotations

import re
from typing import Any

from stoker.core.errors import BadSpec, Violation

Mask = dict[str, "Mask"]
"""Name → what is wanted below it; empty: all of it."""

_TOKEN = re.compile(r"\s*(\w+|[*(),/])\s*")
_DEEPEST = 20


def partial(answer: Any, fields: str | None) -> Any:
    """The answer, reduced to the fields that were asked for. Raises BadSpec."""
    return _reduced(answer, _Reader(fields).mask()) if fields else answer


class _Reader:
    """Reads a mask, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
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
        """`name`, `name/item` or `name(list)`."""
        if depth > _DEEPEST or not self._tokens or self._tokens[0] in "(),/":
            raise self._bad()
        below = mask.setdefault(self._tokens.pop(0), {})
        if self._take("/"):
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
        return BadSpec([Violation("fields", f"{self._text[:200]!r} is not {wanted}")])


def _reduced(value: Any, mask: Mask) -> Any:
    if not mask:
        return value
    if isinstance(value, list):
        return [_reduced(item, mask) for item in value]
    if not isinstance(value, dict):
        return value
    wanted = {name: mask.get(name, mask.get("*")) for name in value}
    return {name: _reduced(value[name], below) for name, below in wanted.items() if below is not None}
