"""What 1,000 running replicas cost the server: each prints a line every 10 s, renews its lease every 10 s, and nobody asks.

As `crowd`, with the replicas alone: a real server process, its API over loopback, SQLite, and the real engine that looks after
them; the replicas are one process that holds their folders' locks and speaks to the server in their names. Replicas of this
machine need no lease; those on others do, so they beat here as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from .crowd import look
from .crowd_people import BEAT_SECONDS, LINE_SECONDS
from .measure import Row, percentile

RUNS = 1
SECONDS = 60.0
RUNNING = 1000


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    found = [look(SECONDS, 0, RUNNING, 0, 0, beats=RUNNING) for _ in range(runs)]
    shares = [seen.cpu_share for seen in found]
    yield Row(what="the server's CPU at rest, of one", unit="%", samples=[100 * seen.idle_cpu_share for seen in found])
    yield Row(
        what=f"with {RUNNING:,} replicas, a line each {LINE_SECONDS:g} s and a beat each {BEAT_SECONDS:g} s, of one",
        unit="%",
        samples=[100 * share for share in shares],
        budget=100,
        moonshot=25,
    )
    yield Row(what="  for a replica, each second", unit="ms", samples=[1000 * share / RUNNING for share in shares])
    for what in sorted({what for seen in found for what in seen.latencies}):
        every = [1000 * seconds for seen in found for seconds in seen.latencies[what]]
        yield Row(what=f"{what}, median of {len(every):,}", unit="ms", samples=[percentile(every, 50)])
        yield Row(what="  p99", unit="ms", samples=[percentile(every, 99)])
    yield Row(what="errors", unit="jobs", samples=[float(len(seen.errors)) for seen in found])
    yield Row(what="its memory at the end", unit="MB", samples=[seen.memory[-1][1] for seen in found])
