"""One estimate of one thing."""

from __future__ import annotations

from stoker.insight.outlook import Holder, Interval, Start
from stoker.simulate.agreed import agreed

NOW = 1000.0


def a_start(middle: float, waits_for: str = "p/a") -> Start:
    return Start(
        at=Interval(low=middle - 100, middle=middle, high=middle + 100),
        draws=24,
        not_started=0,
        played_until=NOW + 9000,
        basis="played 24 times",
        waits_for=waits_for,
    )


def a_holder(job: str, middle: float | None, high: float) -> Holder:
    low = None if middle is None else middle - 10
    ends = Interval(low=low, middle=middle, high=high)
    return Holder(job=job, accelerators=1, since=0, ends=ends, basis="")


def test_one_holder_ends_when_it_starts() -> None:
    holder = a_holder("p/a", NOW + 1440, NOW + 2000)
    assert agreed(a_start(NOW + 20), [holder], [], NOW).at == holder.ends
    assert agreed(a_start(NOW + 20), [holder], ["p/b"], NOW).waits_for == "", "b goes first, and this one later"


def test_of_several_the_one_that_is_named_ends_then() -> None:
    holders = [a_holder("p/a", NOW + 1440, NOW + 2000), a_holder("p/b", NOW + 1500, NOW + 2000)]
    assert agreed(a_start(NOW + 300), holders, [], NOW).waits_for == "", "now one, now another"
    near = a_start(NOW + 1400)
    assert agreed(near, holders, [], NOW) == near


def test_what_is_not_known_is_not_made_up() -> None:
    unknown, known = a_holder("p/a", None, NOW + 7 * 86400), a_holder("p/b", NOW + 600, NOW + 700)
    found = agreed(a_start(NOW + 600), [unknown], [], NOW)
    assert found.at == Interval(low=None, middle=None, high=NOW + 7 * 86400) and found.draws == 0
    assert found.basis == "not known yet: nothing like a has run here"
    assert agreed(a_start(NOW + 600), [unknown], ["p/c"], NOW).at.high is None, "c may run for as long again"
    assert agreed(a_start(NOW + 600, "p/a"), [unknown, known], [], NOW).draws == 0
    assert agreed(a_start(NOW + 600, "p/b"), [unknown, known], [], NOW).draws == 24


def test_what_starts_now_starts_now() -> None:
    start = a_start(NOW)
    assert agreed(start, [a_holder("p/a", None, NOW + 100)], [], NOW) is start
