"""The live world that is carried on."""

from __future__ import annotations

from stoker.core.changes import Cancel
from stoker.insight.live_world import LiveWorld
from tests.builders import House


def test_it_is_what_a_world_that_is_read_anew_is(house: House) -> None:
    live = LiveWorld(house.store)
    for name in ("a", "b"):
        house.submit(name, gpus=1)
        house.tick()
        house.store.commit([Cancel(job=f"p/{name}", why="", at=house.clock.now())], by="u")
        with live.look() as world:
            assert world == house.store.world()
