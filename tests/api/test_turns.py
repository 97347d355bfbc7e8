"""Requests of one job come one at a time; those of others do not wait for them."""

from __future__ import annotations

import asyncio

from stoker.api.turns import MOST_AT_ONCE, Turns


def test_one_at_a_time_for_each_job_and_few_are_read_before() -> None:
    turns, at_it, reads, most, most_reads = Turns(), 0, 0, 0, 0

    async def one(key: str) -> None:
        nonlocal at_it, reads, most, most_reads
        async with turns.of(key) as turn:
            reads += 1
            most_reads = max(most_reads, reads)
            async with turn:
                at_it += 1
                most = max(most, at_it)
                await asyncio.sleep(0)
                at_it -= 1
            reads -= 1

    async def many() -> None:
        await asyncio.gather(*(one("p/j") for _ in range(100)))
        async with turns.of("p/j") as turn, turn:
            await one("p/k")  # of another job

    asyncio.run(many())
    assert most == 1 and most_reads == MOST_AT_ONCE and not turns._turns
