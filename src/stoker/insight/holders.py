"""Who holds which GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.core.world import World

Holders = Mapping[str, Sequence[tuple[str, str]]]


def holders_of(world: World) -> Holders:
    """By the uuid of a GPU: the id of the job and the replica (`worker-0`) of each that holds it, or a share of it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for attempt in world.attempts.values():
        for place in attempt.placements:
            for device in place.devices:
                found.setdefault(device, []).append((attempt.job, f"{place.role}-{place.index}"))
    return found
