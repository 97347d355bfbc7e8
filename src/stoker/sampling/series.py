"""Samples of one source, a GPU or a machine, as numbers in columns: joined over time, and packed for the disk. Pure.

A table of points is an array of float32 (metrics, points, 4): mean, least, greatest and 95th percentile of the samples that fell
into a point; NaN where there were none.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]

SPEED = "_per_second"
"""Ends the name of a counter that is told as its speed."""

MEAN, LEAST, GREATEST, P95 = range(4)
_HEAD = struct.Struct("<HIdd")  # bytes of the names, points, start, seconds of a point


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of a source, from `start` on, each of so many seconds."""

    start: float
    seconds: float
    names: tuple[str, ...]
    table: Numbers  # (metrics, points, 4)

    @property
    def count(self) -> int:
        """How many points."""
        return int(self.table.shape[1])

    def pack(self) -> bytes:
        """As bytes."""
        names = json.dumps(self.names).encode()
        head = _HEAD.pack(len(names), self.count, self.start, self.seconds)
        return zlib.compress(head + names + self.table.astype("<f4").tobytes(), 1)

    @classmethod
    def unpacked(cls, data: bytes) -> Points:
        """From what `pack` made. Raises ValueError for anything else."""
        try:
            raw = zlib.decompress(data)
            length, count, start, seconds = _HEAD.unpack_from(raw)
            names = tuple(json.loads(raw[_HEAD.size : _HEAD.size + length]))
            table = np.frombuffer(raw, "<f4", offset=_HEAD.size + length).reshape(len(names), count, 4)
        except (zlib.error, struct.error, TypeError) as error:
            raise ValueError(f"not a block of samples: {error}") from None
        return cls(start=start, seconds=seconds, names=names, table=table)


@dataclass(frozen=True, slots=True)
class Row:
    """A sample of a source, in a tenth of the memory of a dict: sources that show the same share the names."""

    at: float
    names: tuple[str, ...]
    numbers: array[float]

    @classmethod
    def of(cls, at: float, values: Mapping[str, float], known: dict[tuple[str, ...], tuple[str, ...]]) -> Row:
        """`known`: names that were seen before; it learns new ones."""
        names = tuple(values)
        return cls(at, known.setdefault(names, names), array("d", values.values()))

    def values(self) -> dict[str, float]:
        """By name."""
        return dict(zip(self.names, self.numbers, strict=True))


def joined(samples: Sequence[Row], start: float, seconds: float, count: int) -> Points:
    """Samples, by their moments, as so many points from `start` on. Those of other times are left out."""
    names = tuple(dict.fromkeys(name for kind in {row.names: None for row in samples} for name in kind))
    place = {name: row for row, name in enumerate(names)}
    grid = np.full((len(names), len(samples)), np.nan, np.float64)
    bins = np.empty(len(samples), np.int64)
    rows = {kind: np.array([place[name] for name in kind], np.int64) for kind in {row.names for row in samples}}
    for column, row in enumerate(samples):
        bins[column] = int((row.at - start) // seconds)
        grid[rows[row.names], column] = row.numbers
    table = np.full((len(names), count, 4), np.nan, np.float32)
    for point in np.unique(bins[(bins >= 0) & (bins < count)]):
        table[:, point] = _figures(grid[:, bins == point])
    return Points(start=start, seconds=seconds, names=names, table=table)


def _figures(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean, least, greatest and 95th percentile (nearest rank) of each row, without what is NaN."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    known = np.count_nonzero(~np.isnan(ordered), axis=1)
    rows, last = np.arange(len(values)), np.maximum(known - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(ordered, axis=1) / known
    p95 = ordered[rows, np.maximum(np.ceil(0.95 * known).astype(int) - 1, 0)]
    found = np.stack([mean, ordered[:, 0], ordered[rows, last], p95], axis=1)
    found[known == 0] = np.nan
    return found


def resampled(parts: Sequence[Points], start: float, seconds: float, count: int, names: Sequence[str] = ()) -> Points:
    """Points of several blocks as so many longer ones. `names`: these alone.

    The percentile of a longer point is the greatest of those within it: a bound from above.
    """
    wanted = tuple(names) or tuple(dict.fromkeys(name for part in parts for name in part.names))
    sums = np.zeros((len(wanted), count), np.float64)
    known = np.zeros((len(wanted), count), np.int64)
    least = np.full((len(wanted), count), np.inf, np.float64)
    greatest, p95 = np.full_like(least, -np.inf), np.full_like(least, -np.inf)
    for part in parts:
        rows = [(wanted.index(name), row) for row, name in enumerate(part.names) if name in wanted]
        bins = ((part.start + part.seconds * np.arange(part.count) - start + 1e-6) // seconds).astype(np.int64)
        inside = (bins >= 0) & (bins < count)
        if not rows or not inside.any():
            continue
        to, of = np.array(rows).T
        found, at = part.table[of][:, inside].astype(np.float64), bins[inside]
        is_there = ~np.isnan(found[..., MEAN])
        index = (to[:, None], np.broadcast_to(at, is_there.shape))
        np.add.at(sums, index, np.where(is_there, found[..., MEAN], 0.0))
        np.add.at(known, index, is_there)
        np.minimum.at(least, index, np.where(is_there, found[..., LEAST], np.inf))
        np.maximum.at(greatest, index, np.where(is_there, found[..., GREATEST], -np.inf))
        np.maximum.at(p95, index, np.where(is_there, found[..., P95], -np.inf))
    with np.errstate(invalid="ignore", divide="ignore"):
        table = np.stack([sums / known, least, greatest, p95], axis=2)
    table[known == 0] = np.nan
    return Points(start=start, seconds=seconds, names=wanted, table=table.astype(np.float32))


class Speeds:
    """Counters of one source as speeds. A counter that has begun anew, or a clock that has gone back, gives none once."""

    def __init__(self, counters: frozenset[str]) -> None:
        self._counters = counters
        self._at = 0.0
        self._last: Mapping[str, float] = {}

    def of(self, at: float, values: Mapping[str, float]) -> dict[str, float]:
        """The values of a moment, counters as what they have grown in a second since the last one."""
        seconds = at - self._at
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name not in self._counters:
                found[name] = value
            elif seconds > 0 and value >= self._last.get(name, float("inf")):
                found[f"{name}{SPEED}"] = (value - self._last[name]) / seconds
        self._at, self._last = at, {name: value for name, value in values.items() if name in self._counters}
        return found
