"""The first of several nodes by one measure after the other; the last one is the name."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .free import Indices


def least(among: Indices, *measures: NDArray[Any]) -> int:
    """The node where the first measure is least; of those that are equal, the second; …; of those, the first by name.

    `measures`: one value for every node of the site each.
    """
    for measure in measures:
        values = measure[among]
        among = among[values == values.min()]
        if among.size == 1:
            break
    return int(among[0])
