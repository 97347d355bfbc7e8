"""The reserve: what is new is refused while there is little left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.core.errors import Unavailable
from stoker.store.files import Files
from stoker.store.objects.objects import Objects
from stoker.store.room import Room, free_bytes
from tests.builders import a_house


def test_what_is_new_is_refused_below_the_reserve(tmp_path: Path) -> None:
    room = Room(64, lambda folder: 63_900_000)
    with pytest.raises(Unavailable, match="nearly full") as refused:
        room.check(tmp_path, "new jobs")
    assert "until 64 MB are free" in refused.value.fix and "reserve_mb" in refused.value.fix
    Room(64, lambda folder: 64_100_000).check(tmp_path, "new jobs")
    Room(0, lambda folder: 0).check(tmp_path, "new jobs")


def test_the_room_of_a_folder_that_is_yet_to_be_made_is_that_of_its_disk(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(free_bytes(tmp_path), rel=0.1)


def test_a_submission_and_an_upload_are_refused_and_what_runs_goes_on(tmp_path: Path) -> None:
    free = 100.0
    room = Room(64, lambda folder: int(free * 1e6))
    house = a_house(tmp_path)
    house.commands = replace(house.commands, check_room=lambda: room.check(tmp_path, "new jobs"))
    house.submit("first", gpus=1)
    house.tick()
    free = 10.0
    with pytest.raises(Unavailable, match="new jobs are not taken now"):
        house.submit("second", gpus=1)
    objects = Objects(Files(tmp_path / "buckets", buckets={}, keep_buckets_here=True), tmp_path, room)
    with pytest.raises(Unavailable, match="uploads are not taken now"), objects.bucket("bucket").write("a"):
        pass
    house.commands.cancel("p/first", owner="u")
    house.tick()
    assert house.store.attempts("p/first")[0].stopping_at is not None
    free = 70.0
    house.submit("second", gpus=1)
