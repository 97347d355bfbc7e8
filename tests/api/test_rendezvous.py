"""Many wait for each other, and one looks for all of them."""

from __future__ import annotations

import asyncio

import pytest

from stoker.api.notifier import Notifier
from stoker.api.rendezvous import Rendezvous
from stoker.core.errors import Conflict


class Look:
    """Somebody who looks, and counts how often."""

    def __init__(self, *found: bytes | Exception) -> None:
        self.found = list(found)
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found


def run(look: Look, waiters: int, *, seconds: float = 30.0, rings: int = 0, closed: bool = False) -> list[object]:
    """What so many are told who wait together."""

    async def meet() -> list[object]:
        notifier = Notifier()
        notifier.attach()
        notifier.closed = closed
        rendezvous = Rendezvous(notifier)
        waiting = [asyncio.create_task(rendezvous.wait("a", "j", look, seconds)) for _ in range(waiters)]
        for _ in range(rings):
            await asyncio.sleep(0)
            notifier.notify()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert not rendezvous._meetings
        return list(found)

    return asyncio.run(meet())


def test_one_looks_for_all() -> None:
    look = Look(b"", b"met")
    assert run(look, 100, rings=3) == [b"met"] * 100
    assert look.count == 2


def test_after_a_while_it_is_told_that_somebody_is_missing() -> None:
    assert run(Look(b""), 3, seconds=0.05) == [b""] * 3


def test_when_the_server_ends_there_is_one_look() -> None:
    look = Look(b"met")
    assert run(look, 2, closed=True) == [b"met"] * 2
    assert run(Look(b""), 2, closed=True) == [b""] * 2


def test_everybody_is_told_of_an_end() -> None:
    found = run(Look(Conflict("it has ended")), 3)
    assert [type(one) for one in found] == [Conflict] * 3


@pytest.mark.parametrize("rounds", [2])
def test_who_comes_later_looks_anew(rounds: int) -> None:
    look = Look(b"met")
    for _ in range(rounds):
        assert run(look, 1) == [b"met"]
    assert look.count == rounds
