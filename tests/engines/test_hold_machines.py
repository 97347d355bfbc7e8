"""What of a replica's machine binds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.engines.local.isolation import Isolation
from stoker.runtime.cgroups import Cgroups

GIB = 2**30


class Groups(Cgroups):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__("cgroup v2", "/base", {"memory": "/base", "cpu": "/base", "pids": "/base"})
        self.asked: list[tuple[int, float, bool]] = []

    def make(
        self, name: str, memory_bytes: int = 0, processes: int = 0, vcpus: float = 0.0, *, is_hard: bool = False
    ) -> list[str]:
        self.asked.append((memory_bytes, vcpus, is_hard))
        return ["/base/" + name]


@pytest.mark.parametrize(
    ("hold", "level", "explicit", "site", "most", "is_hard"),
    [
        ("auto", 1, 0, 0, 0, False),  # one's own machine: counted, not held
        ("auto", 2, 0, 0, 15 * GIB, True),
        ("on", 1, 0, 0, 15 * GIB, True),
        ("off", 2, 0, 0, 0, False),
        ("off", 1, GIB, 0, GIB, False),  # --memory binds always
        ("on", 1, GIB, 0, GIB, True),
        ("on", 1, 0, 4 * GIB, 4 * GIB, True),  # the site's own limit as well
    ],
)
def test_what_a_replica_is_held_to(
    tmp_path: Path, hold: str, level: int, explicit: int, site: int, most: int, is_hard: bool
) -> None:
    groups = Groups()
    isolation = Isolation(home=tmp_path, level=level, groups=groups, memory_bytes=site, processes=100, hold=hold)
    asked: dict[str, Any] = {
        "memory_limit_bytes": explicit,
        "machine_memory_bytes": 15 * GIB,
        "vcpus": 4.0,
        "is_sized": True,
    }
    assert isolation.group("a", asked) == ["/base/a"]
    assert groups.asked == [(most, 4.0, is_hard)]
    isolation.group("b", {**asked, "is_sized": False})
    assert groups.asked[1] == (most, 4.0, False), "nobody has said how many vCPUs: they weigh, and are no bound"
