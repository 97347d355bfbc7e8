"""Who leads: the loop runs while the lock is ours, and what an earlier term decides is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.control.leading import Leading, not_leading
from stoker.core.errors import Deposed
from stoker.core.states import JobState
from stoker.store.lead import HomeLead
from tests.builders import House, a_house
from tests.conftest import wait_until


class LooseLead:
    """A lock that can be lost, and be somebody else's."""

    def __init__(self) -> None:
        self.is_free = True
        self.is_ours = False

    def take_home(self) -> bool:
        return self.take()

    def take(self, *, over: bool = False) -> bool:
        self.is_ours = self.is_free
        return self.is_ours

    def confirm(self) -> bool:
        return self.is_ours

    def is_sure(self) -> bool:
        return self.is_ours

    def release(self) -> None:
        self.is_ours = False


def a_leading(house: House, lead: LooseLead) -> tuple[Leading, list[str]]:
    said: list[str] = []
    leading = Leading(
        lead=lead,
        store=house.store,
        loop=house.loop,
        who="http://here:1",
        began=lambda: said.append("began"),
        looked=lambda: said.append("looked"),
        look_seconds=0.05,
    )
    return leading, said


def test_a_home_is_led_by_one(tmp_path: Path) -> None:
    first, second = HomeLead(tmp_path), HomeLead(tmp_path)
    assert first.take() and first.is_sure() and not second.take() and not second.is_sure()
    assert not second.take(over=True), "a server that hangs keeps its home"
    first.release()
    assert second.take() and not first.is_sure()
    second.release()


def test_the_loop_runs_while_we_lead_and_goes_on_where_another_left_off(tmp_path: Path) -> None:
    house, lead = a_house(tmp_path), LooseLead()
    leading, said = a_leading(house, lead)
    assert lead.take()
    leading.begin()
    leading.start()
    assert leading.leads() and said == ["began"]
    house.submit("first", gpus=1)
    wait_until(lambda: house.store.job("p/first").job.state is JobState.ACTIVE)

    lead.is_free = lead.is_ours = False
    assert not leading.leads(), "at once, before anybody has looked"
    wait_until(lambda: "looked" in said)
    assert not house.loop.runs
    house.submit("second", gpus=1)
    assert house.store.job("p/second").job.state is JobState.QUEUED

    lead.is_free = True
    wait_until(lambda: house.store.job("p/second").job.state is JobState.ACTIVE)
    assert leading.leads() and said.count("began") == 2
    leader = house.store.leader()
    assert leader is not None and leader.term == 2
    leading.stop()
    assert not leading.leads() and not house.loop.runs and not lead.is_ours


def test_a_loop_whose_term_is_over_ends_and_changes_nothing(tmp_path: Path) -> None:
    house, lead = a_house(tmp_path), LooseLead()
    leading, said = a_leading(house, lead)
    assert lead.take()
    leading.begin()
    wait_until(lambda: house.loop.runs)
    lead.is_free = False
    house.store.lead("http://there:2")
    house.submit(gpus=1)
    wait_until(lambda: not house.loop.runs)
    assert house.job().state is JobState.QUEUED
    with pytest.raises(Deposed):
        house.loop.tick()
    leading.start()
    wait_until(lambda: "looked" in said)
    assert not leading.leads()
    leading.stop()


def test_the_refusal_says_where_to_go(tmp_path: Path) -> None:
    house = a_house(tmp_path)
    assert "none leads yet" in not_leading(house.store.leader()).message
    house.store.lead("http://there:2")
    refusal = not_leading(house.store.leader())
    assert "http://there:2 leads" in refusal.message and "http://there:2" in refusal.fix
