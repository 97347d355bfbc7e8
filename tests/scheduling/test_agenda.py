"""When time alone demands a look."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.scheduling.agenda import Agenda


def test_the_earliest_moment_of_each_counts() -> None:
    agenda = Agenda()
    for moment, name in ((5.0, "a"), (3.0, "b"), (4.0, "a"), (9.0, "a"), (4.0, "")):
        agenda.put(moment, name)
    assert (agenda.next_at, list(agenda.due(2.9))) == (3.0, [])
    assert list(agenda.due(4.0)) == ["b", "", "a"]
    assert agenda.next_at is None and list(agenda.due(99.0)) == []


def test_what_is_dropped_is_not_due_and_may_come_again() -> None:
    agenda = Agenda()
    agenda.put(1.0, "a")
    agenda.drop("a")
    assert agenda.next_at is None
    agenda.put(2.0, "a")
    assert agenda.next_at == 2.0 and list(agenda.due(2.0)) == ["a"]


def test_what_has_gone_takes_no_room() -> None:
    agenda = Agenda()
    for n in range(10_000):
        agenda.put(1e9 - n, f"j{n}")
        agenda.drop(f"j{n}")
        agenda.put(1e9 - n, "")
    assert len(agenda) == 1 and len(agenda._heap) < 2_000


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20)))))
def test_it_is_a_table_of_moments(steps: list[tuple[str, int | None]]) -> None:
    agenda, table = Agenda(), dict[str, float]()
    for name, moment in steps:
        if moment is None:
            agenda.drop(name)
            table.pop(name, None)
        else:
            agenda.put(moment, name)
            table[name] = min(moment, table.get(name, moment))
        assert agenda.next_at == min(table.values(), default=None)
    assert list(agenda.due(10.0)) == [name for at, name in sorted((at, n) for n, at in table.items()) if at <= 10]
