"""Why a job waits, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.api.dialects.native.explain import explanation
from tests.builders import House, a_house


class Site:
    """The services that an explanation asks, on a house."""

    def __init__(self, house: House) -> None:
        self.store = house.store
        self.queue = self

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


def explained(house: House, name: str) -> dict[str, Any]:
    """What is said of a job."""
    job = f"p/{name}"
    site: Any = Site(house)
    return {**explanation(site, house.store.job(job), house.store.attempts(job))}


def test_a_waiting_job_says_why_and_who_holds_what_it_needs(full: House) -> None:
    found = explained(full, "second")
    assert (found["state"], found["code"], found["held_by"], found["position"]) == ("QUEUED", "NO_ROOM", ["p/first"], 3)
    assert "held by first" in found["text"] and found["action"]


def test_a_running_job_waits_for_nothing(full: House) -> None:
    found = explained(full, "first")
    assert (found["code"], found["held_by"], found["position"], found["not_before"]) == ("", [], None, None)


def test_a_job_nobody_has_looked_at_yet(full: House) -> None:
    full.submit("third")
    assert explained(full, "third")["text"] == "it will be looked at in a moment"


def test_how_it_ended(full: House) -> None:
    full.commands.cancel("p/first", owner="ada")
    full.tick(5, seconds=60.0)
    found = explained(full, "first")
    assert (found["state"], found["text"]) == ("CANCELLED", "The job was cancelled by ada.")
    assert [attempt["cause"] for attempt in found["attempts"]] == ["CANCELLED"]
