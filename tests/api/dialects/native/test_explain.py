"""Why a job waits, when it will start or end, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.api.dialects.native.explain import explanation
from stoker.core.job import Job
from stoker.core.node import Node
from stoker.core.site import Site as SiteOf
from stoker.insight.outlook import Outlook
from stoker.scheduling.rules import rules_of
from stoker.simulate.outlooks import PlayedOutlooks
from tests.builders import House, a_house


class Busy:
    """Implements Outlooks where too many ask."""

    def of(self, job: str) -> Outlook | None:
        """Nothing."""
        return None

    def of_new(self, job: Job, nodes: tuple[Node, ...] = ()) -> Outlook | None:
        """Nothing."""
        return None


class Site:
    """The services that an explanation asks, on a house."""

    def __init__(self, house: House, outlooks: Any = None) -> None:
        self.store = house.store
        self.commands = house.commands
        self.queue = self
        self.outlooks = outlooks or PlayedOutlooks(store=house.store, rules=rules_of(SiteOf()), clock=house.clock)

    def position(self, job: str) -> int | None:
        """Whoever asks is the third."""
        return 3


@pytest.fixture
def full(tmp_path: Path) -> House:
    """A house whose one node is taken by the job `first`; `second` waits for it."""
    house = a_house(tmp_path)
    house.submit("first", gpus=4)
    house.tick(3)
    house.submit("second", gpus=2)
    house.tick()
    return house


def explained(house: House, name: str, outlooks: Any = None) -> dict[str, Any]:
    """What is said of a job."""
    job = f"p/{name}"
    site: Any = Site(house, outlooks)
    return {**explanation(site, house.store.job(job), house.store.attempts(job))}


def test_a_waiting_job_says_why_and_who_holds_what_it_needs(full: House) -> None:
    found = explained(full, "second")
    assert (found["state"], found["code"], found["held_by"], found["position"]) == ("QUEUED", "NO_ROOM", ["p/first"], 3)
    assert "needs 1 × 2 T4" in found["text"] and found["action"]
    assert found["running_since"] is None and found["ends"] is None


def test_when_it_will_start_and_what_that_rests_on(full: House) -> None:
    found, now = explained(full, "second"), full.clock.now()
    (holder,) = found["holders"]
    assert (holder["job"], holder["since"], holder["accelerators"]) == ("p/first", now, 4.0)
    assert holder["basis"] == "nothing like it has run here: only its limit is known"
    assert holder["ends"] == {"low": None, "middle": None, "high": now + 604800}
    starts = found["starts"]
    assert starts["at"] == holder["ends"], "one truth"
    assert (starts["waits_for"], starts["draws"]) == ("p/first", 0)
    assert starts["basis"] == "not known yet: nothing like first has run here"
    assert found["story_position"] == full.store.position() and found["as_of"] == now


def test_the_reason_is_that_of_now_and_not_what_was_written(full: House) -> None:
    full.submit("third", gpus=2)
    found = explained(full, "third")
    assert (found["code"], found["ahead"]) == ("BEHIND", ["p/second"])
    assert full.job("third").waits is None


def test_a_running_job_waits_for_nothing(full: House) -> None:
    found, now = explained(full, "first"), full.clock.now()
    assert (found["code"], found["held_by"], found["position"], found["not_before"]) == ("", [], None, None)
    assert found["running_since"] == now
    assert found["ends"] == {"low": None, "middle": None, "high": now + 604800}
    assert found["starts"] is None and found["what_if"] == []


def test_what_gets_its_machines_at_once(tmp_path: Path) -> None:
    house = a_house(tmp_path)
    house.submit("first")
    found = explained(house, "first")
    assert (found["code"], found["text"]) == ("", "what it needs is free: it gets it now")
    assert found["starts"]["at"]["middle"] == house.clock.now()


def test_while_too_many_ask_the_written_reason_is_told(full: House) -> None:
    found = explained(full, "second", Busy())
    assert found["code"] == "NO_ROOM" and found["starts"] is None and found["story_position"] is None
    full.submit("third")
    assert explained(full, "third", Busy())["text"] == "it will be looked at in a moment"


def test_what_would_start_it_sooner(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4")
    house.submit("first", gpus=4)
    house.tick(3)
    house.submit("wide", gpus=4, workers=1)
    house.tick()
    found = {one["change"]: one for one in explained(house, "wide")["what_if"]}
    assert (found["workers"]["text"], found["workers"]["sooner_seconds"]) == ("without its 1 worker", None)
    assert found["workers"]["starts"]["at"]["high"] == house.clock.now()


def test_how_it_ended(full: House) -> None:
    full.commands.cancel("p/first", owner="ada")
    full.tick(5, seconds=60.0)
    found = explained(full, "first")
    assert (found["state"], found["text"]) == ("CANCELLED", "The job was cancelled by ada.")
    assert [attempt["cause"] for attempt in found["attempts"]] == ["CANCELLED"]
    assert found["ended_at"] == full.job("first").ended_at and found["lasts"] is None
