"""The bell of the event loop."""

from __future__ import annotations

import asyncio
import threading

from stoker.api.bell import Bell, wait


def test_a_ring_from_another_thread_wakes_everybody_who_waits() -> None:
    async def story() -> list[bool]:
        bell = Bell()
        bell.attach()
        rings = [bell.next(), bell.next()]
        threading.Thread(target=bell.ring).start()
        return list(await asyncio.gather(*(wait(ring, 30.0) for ring in rings)))

    assert asyncio.run(story()) == [True, True]


def test_what_a_job_prints_wakes_who_waits_for_it_or_for_any() -> None:
    async def story() -> list[bool]:
        bell = Bell()
        bell.attach()
        rings = [bell.next("p/j"), bell.next("p/k"), bell.next()]
        threading.Thread(target=bell.ring_for, args=("p/j",)).start()
        told = [await wait(rings[0], 30.0), await wait(rings[2], 30.0), rings[1].done()]
        bell.ring()
        return [*told, await wait(rings[1], 30.0)]

    assert asyncio.run(story()) == [True, True, False, True]


def test_no_ring_is_told_from_a_ring() -> None:
    async def story() -> bool:
        bell = Bell()
        bell.attach()
        return await wait(bell.next(), 0.0)

    assert asyncio.run(story()) is False


def test_a_closed_bell_lets_nobody_wait() -> None:
    async def story() -> list[bool]:
        bell = Bell()
        bell.attach()
        before = bell.next()
        bell.close()
        return [await wait(before, 30.0), await wait(bell.next(), 30.0)]

    assert asyncio.run(story()) == [True, True]


def test_a_ring_before_and_after_the_event_loop_is_of_no_effect() -> None:
    bell = Bell()
    bell.ring()

    async def attach() -> None:
        bell.attach()

    asyncio.run(attach())
    bell.ring()
