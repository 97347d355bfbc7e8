"""What an exit code means (contract 3.5)."""

from __future__ import annotations

import pytest

from stoker.runtime.exits import PERMANENT, RESTARTABLE, TRANSIENT, exit_class, shown_exit_code


@pytest.mark.parametrize("code", range(1, 256))
def test_the_class_of_every_code(code: int) -> None:
    if code in (6, 11, 134, 139):
        expected = TRANSIENT
    elif code <= 127:
        expected = PERMANENT
    else:
        expected = RESTARTABLE
    assert exit_class(code) == expected


def test_memory_is_permanent_whatever_the_code() -> None:
    assert exit_class(137, out_of_memory=True) == PERMANENT


@pytest.mark.parametrize(("given", "shown"), [(0, 0), (3, 3), (-6, 6), (-11, 11), (-9, 137), (-15, 143), (-2, 130)])
def test_shown_exit_code(given: int, shown: int) -> None:
    assert shown_exit_code(given) == shown


@pytest.mark.parametrize(("given", "shown"), [(0, 0), (3, 3), (-6, 134), (-11, 139), (-9, 137), (-15, 143), (-2, 130)])
def test_in_a_container_every_signal_is_128_more(given: int, shown: int) -> None:
    assert shown_exit_code(given, is_container=True) == shown
