"""Programs that divide what they have summed over their share by the size of all the data: seen where they do, and said.

Such as `print(total / len(loader.dataset))`: on two processes half of what one would print.
"""

from __future__ import annotations

import functools
import linecache
import re
import sys
from typing import Any

from stoker.frameworks.messages import say

_DIVIDES = re.compile(r"/=?\s*\(?\s*(?:float\()?len\(")
_watched: "set[type]" = set()
_parted: "set[int]" = set()


def watch_size(data: Any, processes: int) -> None:
    """From now on, training on a share of these data, say so once where the program divides by their size."""
    kind = type(data)
    _parted.add(id(data))
    size = getattr(kind, "__len__", None)
    if kind in _watched or size is None or processes < 2:
        return
    _watched.add(kind)

    @functools.wraps(size)
    def asked(self: Any) -> Any:
        if id(self) in _parted:
            caller = sys._getframe(1)
            line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
            if _DIVIDES.search(line):
                say(
                    f"line {caller.f_lineno} divides by the size of all the data, {line.strip()[:80]!r}: of a sum over this"
                    f" process's share that is 1/{processes} of what one process prints; divide by the examples that were summed"
                )
        return size(self)

    try:
        kind.__len__ = asked
    except (AttributeError, TypeError):
        pass  # a type of C's
