"""What was sampled, kept: the last quarter of an hour as it came, then in points of 10 seconds, then of a minute.

A source is a GPU of a node, by its uuid, or the node itself (an empty text). Each minute is written as it ends, a row a source;
each hour that is over is written once more in points of a minute. All this lies in a database of its own, so that the one of jobs
is not slowed by it. Why not in another kind of store: docs/decisions/0054-samples.md.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .series import Points, Row, Speeds, joined, resampled

RECENT_SECONDS = 900.0
"""So much is kept as it came, in memory."""

MINUTE, HOUR = 60.0, 3600.0
TIERS = (10.0, 60.0)
"""Seconds of a point, the finest first; those of a minute are made of those of 10 seconds."""

MOST_POINTS = 240
_FINE_SECONDS = 6 * HOUR
_MOST_BACK_SECONDS = 120.0  # a clock that has gone back further than that was set, and its time counts
_MOST_SAMPLES_A_MINUTE = 600
_FULL_SHARE = 0.9  # of the disk's share: down to that the oldest is removed

_SCHEMA = """
CREATE TABLE IF NOT EXISTS blocks (
    tier INTEGER NOT NULL, node TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (tier, node, source, start)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS blocks_by_time ON blocks (tier, start);
"""

_log = logging.getLogger("stoker.sampling")

Key = tuple[str, str]  # node, source


@dataclass(slots=True)
class _Source:
    """A source as it comes in."""

    speeds: Speeds
    minute: float = 0.0  # where the one that goes on has begun
    samples: list[Row] = field(default_factory=list)
    recent: deque[tuple[float, bytes]] = field(default_factory=deque)  # minutes, as they came, packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """For how long, and how much."""

    fine_days: float = 14.0  # points of 10 seconds
    coarse_days: float = 365.0  # points of a minute
    most_bytes: float = 5e9


class History:
    """One site's. Any thread may ask; what comes in may come from several."""

    def __init__(
        self, path: Path, counters: frozenset[str], keep: Keep | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """`counters`: names of what only grows; it is kept as its speed. Raises OSError or sqlite3.Error."""
        self._path = path
        self._counters = counters
        self._keep = keep or Keep()
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._sources: dict[Key, _Source] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._problem = ""
        self.left_out = 0
        """Samples that came too late, or too many of them."""
        path.touch(mode=0o600)
        with self._connected() as db:
            db.executescript(f"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; {_SCHEMA}")

    def add(self, node: str, at: float, sources: Mapping[str, Mapping[str, float]]) -> None:
        """Take a sample of a node: by source, what it shows. Never raises for what it holds, nor for a disk that is full."""
        over: list[tuple[Key, bytes, float]] = []
        with self._lock:
            for name, values in sources.items():
                found = self._sources.get((node, name))
                if found is None:
                    found = self._sources[node, name] = _Source(Speeds(self._counters))
                ended = self._take(found, at, values)
                if ended is not None:
                    over.append(((node, name), *ended))
        if over:
            self._write([(int(TIERS[0]), *key, int(start), body) for key, body, start in over])

    def end_minutes(self) -> None:
        """Write what has come in so far, such as at the end of the server."""
        over: list[tuple[Key, bytes, float]] = []
        with self._lock:
            for key, found in self._sources.items():
                ended = self._seal(found)
                if ended is not None:
                    over.append((key, *ended))
        self._write([(int(TIERS[0]), *key, int(start), body) for key, body, start in over])

    def tidy(self) -> None:
        """Write hours that are over in points of a minute, and remove what is too old or too much. To be called now and then."""
        try:
            with self._writing, self._connected() as db:
                self._write_hours(db)
                self._remove(db)
        except sqlite3.Error as error:
            self._fails(error)

    def problem(self) -> str:
        """Why samples cannot be kept now; empty: they are."""
        return self._problem

    def points(
        self,
        node: str,
        source: str,
        since: float,
        until: float,
        *,
        names: Sequence[str] = (),
        count: int = MOST_POINTS,
    ) -> Points:
        """What a source showed in a while, as at most `count` points: as fine as it is kept, and as they have room."""
        until = max(until, since + 1.0)
        seconds = (until - since) / count
        blocks = list(self._recent(node, source, since)) if since >= self._clock() - RECENT_SECONDS else []
        if not blocks:
            blocks = [*self._written(node, source, since, until), *self._open(node, source)]
        finest = max((block.seconds for block in blocks), default=1.0)
        since -= since % finest  # where a point begins
        seconds = max(seconds, finest)
        return resampled(blocks, since, seconds, max(1, min(count, round((until - since) / seconds))), names)

    def newest(self, node: str, source: str) -> tuple[float, Mapping[str, float]] | None:
        """The last sample of a source, with its moment."""
        with self._lock:
            found = self._sources.get((node, source))
            last = found.samples[-1] if found is not None and found.samples else None
        return (last.at, last.values()) if last is not None else None

    # What comes in.

    def _take(self, found: _Source, at: float, values: Mapping[str, float]) -> tuple[bytes, float] | None:
        """Returns the minute that has ended by it, if one has."""
        minute = at - at % MINUTE
        ended = None
        if minute != found.minute:
            if minute < found.minute and at > found.minute - _MOST_BACK_SECONDS:
                self.left_out += 1
                return None
            ended = self._seal(found)
            found.minute = minute
        if len(found.samples) >= _MOST_SAMPLES_A_MINUTE:
            self.left_out += 1
        else:
            found.samples.append(Row.of(at, found.speeds.of(at, values), self._names))
        return ended

    def _seal(self, found: _Source) -> tuple[bytes, float] | None:
        if not found.samples:
            return None
        samples, found.samples = found.samples, []
        fine = joined(samples, found.minute, TIERS[0], int(MINUTE / TIERS[0])).pack()
        is_dense = len(samples) > 2 * MINUTE / TIERS[0]  # else the fine points are all that there is to know
        recent = joined(samples, found.minute, 1.0, int(MINUTE)).pack() if is_dense else fine
        found.recent.append((found.minute, recent))
        while found.recent and found.recent[0][0] < found.minute - RECENT_SECONDS:
            found.recent.popleft()
        return fine, found.minute

    # The disk.

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=10)) as db, db:
            db.execute("PRAGMA synchronous = NORMAL")
            yield db

    def _write(self, rows: Sequence[tuple[int, str, str, int, bytes]]) -> None:
        """A minute that is there already stays: then the clock has gone back."""
        try:
            with self._writing, self._connected() as db:
                db.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)
            self._problem = ""
        except sqlite3.Error as error:
            self._fails(error)

    def _fails(self, error: sqlite3.Error) -> None:
        if not self._problem:
            _log.error("samples cannot be kept in %s: %s", self._path, error)
        self._problem = f"samples cannot be kept in {self._path}: {error}"

    def _write_hours(self, db: sqlite3.Connection) -> None:
        fine, coarse = map(int, TIERS)
        now_hour = int(self._clock() // HOUR * HOUR)
        done = db.execute("SELECT max(start) FROM blocks WHERE tier = ?", [coarse]).fetchone()[0]
        first = db.execute("SELECT min(start) FROM blocks WHERE tier = ?", [fine]).fetchone()[0]
        if first is None:
            return
        hour = int(first // HOUR * HOUR) if done is None else int(done + HOUR)
        hour = max(hour, int(first // HOUR * HOUR))
        while hour < now_hour:
            found: dict[Key, list[Points]] = {}
            rows = db.execute(
                "SELECT node, source, body FROM blocks WHERE tier = ? AND start >= ? AND start < ?",
                [fine, hour, hour + int(HOUR)],
            )
            for node, source, body in rows:
                found.setdefault((node, source), []).append(Points.unpacked(body))
            made = [
                (coarse, *key, hour, resampled(parts, hour, TIERS[1], int(HOUR / TIERS[1])).pack())
                for key, parts in found.items()
            ]
            db.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", made)
            later = db.execute(
                "SELECT min(start) FROM blocks WHERE tier = ? AND start >= ?", [fine, hour + int(HOUR)]
            ).fetchone()[0]
            if later is None:
                return
            hour = int(later // HOUR * HOUR)

    def _remove(self, db: sqlite3.Connection) -> None:
        now = self._clock()
        for tier, days in zip(TIERS, (self._keep.fine_days, self._keep.coarse_days), strict=True):
            db.execute("DELETE FROM blocks WHERE tier = ? AND start < ?", [int(tier), now - days * 86400])
        for tier in map(int, TIERS):  # too much: the oldest of the fine points goes first
            while (excess := self._bytes(db) - self._keep.most_bytes) > 0:
                first, last = db.execute("SELECT min(start), max(start) FROM blocks WHERE tier = ?", [tier]).fetchone()
                if first is None:
                    break
                share = min(1.0, (excess + (1 - _FULL_SHARE) * self._keep.most_bytes) / max(1, self._bytes(db)))
                until = first + max(MINUTE, share * (last - first))
                db.execute("DELETE FROM blocks WHERE tier = ? AND start < ?", [tier, until])
        db.commit()
        db.execute("PRAGMA incremental_vacuum").fetchall()

    @staticmethod
    def _bytes(db: sqlite3.Connection) -> int:
        """What is in use of the file."""
        (pages,), (free,), (size,) = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    # What is asked.

    def _recent(self, node: str, source: str, since: float) -> Iterator[Points]:
        with self._lock:
            found = self._sources.get((node, source))
            if found is None:
                return
            blocks = [body for start, body in found.recent if start + MINUTE > since]
        yield from map(Points.unpacked, blocks)
        yield from self._open(node, source)

    def _open(self, node: str, source: str) -> Iterator[Points]:
        with self._lock:
            found = self._sources.get((node, source))
            samples, minute = (list(found.samples), found.minute) if found is not None else ([], 0.0)
        if samples:
            yield joined(samples, minute, 1.0, int(MINUTE))

    def _written(self, node: str, source: str, since: float, until: float) -> Iterator[Points]:
        """Fine points for a short while, coarse ones for a long one; where the coarse ones are not made yet, the fine ones."""
        fine, coarse = map(int, TIERS)
        with self._connected() as db:
            first_fine = db.execute("SELECT min(start) FROM blocks WHERE tier = ?", [fine]).fetchone()[0]
            done = db.execute("SELECT max(start) FROM blocks WHERE tier = ?", [coarse]).fetchone()[0]
            is_fine = until - since <= _FINE_SECONDS and first_fine is not None and since >= first_fine
            coarse_until = since - HOUR if is_fine else min(until, (done or 0) + HOUR)
            rows = db.execute(
                "SELECT body FROM blocks WHERE node = ? AND source = ? AND (tier = ? AND start > ? AND start < ?"
                " OR tier = ? AND start >= ? AND start < ?) ORDER BY start",
                [node, source, coarse, since - HOUR, coarse_until, fine, max(coarse_until, since - MINUTE), until],
            ).fetchall()
        yield from (Points.unpacked(body) for (body,) in rows)
