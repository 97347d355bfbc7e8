"""The bell of the event loop."""

from __future__ import annotations

import asyncio
import threading

from stoker.api.notifier import Notifier, wait


def test_a_ring_from_another_thread_wakes_everybody_who_waits() -> None:
    async def story() -> list[bool]:
        notifier = Notifier()
        notifier.attach()
        rings = [notifier.next(), notifier.next()]
        threading.Thread(target=notifier.notify).start()
        return list(await asyncio.gather(*(wait(ring, 30.0) for ring in rings)))

    assert asyncio.run(story()) == [True, True]


def test_what_a_job_prints_wakes_who_waits_for_it_or_for_any() -> None:
    async def story() -> list[bool]:
        notifier = Notifier()
        notifier.attach()
        rings = [notifier.next("p/j"), notifier.next("p/k"), notifier.next()]
        threading.Thread(target=notifier.notify_for, args=("p/j",)).start()
        told = [await wait(rings[0], 30.0), await wait(rings[2], 30.0), rings[1].done()]
        notifier.notify()
        return [*told, await wait(rings[1], 30.0)]

    assert asyncio.run(story()) == [True, True, False, True]


def test_no_ring_is_told_from_a_ring() -> None:
    async def story() -> bool:
        notifier = Notifier()
        notifier.attach()
        return await wait(notifier.next(), 0.0)

    assert asyncio.run(story()) is False


def test_a_closed_bell_lets_nobody_wait() -> None:
    async def story() -> list[bool]:
        notifier = Notifier()
        notifier.attach()
        before = notifier.next()
        notifier.close()
        return [await wait(before, 30.0), await wait(notifier.next(), 30.0)]

    assert asyncio.run(story()) == [True, True]


def test_a_ring_before_and_after_the_event_loop_is_of_no_effect() -> None:
    notifier = Notifier()
    notifier.notify()

    async def attach() -> None:
        notifier.attach()

    asyncio.run(attach())
    notifier.notify()
