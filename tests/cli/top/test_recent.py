"""The last minutes are those of the server, carried on."""

from __future__ import annotations

from stoker.cli.top.recent import POINTS, SECONDS, Recent
from tests.cli.top.overviews import NOW, a_gpu, a_node, an_overview


def took(*looks: tuple[float, float | None], recent: list[float | None] | None = None) -> list[float | None]:
    """What is known of a GPU after looks at so many seconds."""
    found = Recent()
    for at, busy in looks:
        gpu = a_gpu(recent=recent or [])
        gpu["values"] = {} if busy is None else {"utilization_percent": busy}
        found.take(an_overview([gpu], at=NOW + at))
    return list(found.of("GPU-box-0"))


def test_looks_within_a_point_are_averaged() -> None:
    assert took((0, 10.0), (2, 30.0)) == [20.0]
    assert took((0, 10.0), (2, 30.0), (SECONDS, 80.0)) == [20.0, 80.0]


def test_a_server_that_was_away_leaves_a_gap() -> None:
    assert took((0, 10.0), (3 * SECONDS, 20.0)) == [10.0, None, None, 20.0]
    assert took((0, 10.0), (1e6, 20.0)) == [None] * (POINTS - 1) + [20.0]


def test_a_clock_that_goes_back_does_no_harm() -> None:
    assert took((0, 10.0), (-1e6, 20.0)) == [10.0, 20.0]


def test_the_servers_points_come_first() -> None:
    assert took((0, 10.0), recent=[1.0, None, 2.0, None, None]) == [1.0, None, 2.0, 10.0]


def test_what_is_not_told_is_a_gap() -> None:
    assert took((0, 10.0), (SECONDS, None)) == [10.0, None]


def test_what_is_gone_is_forgotten() -> None:
    found = Recent()
    found.take(an_overview([a_gpu()], nodes=[a_node()]))
    assert found.of("box") == (25.0,)
    found.take(an_overview([], nodes=[a_node("other")]))
    assert found.of("box") == found.of("GPU-box-0") == () and found.of("other") == (25.0,)
