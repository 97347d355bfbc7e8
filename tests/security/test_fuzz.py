"""A moment of what `python -m tests.chaos.fuzz` does for hours: every target, some inputs, always the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.chaos.fuzz import changed
from tests.chaos.targets import EXPECTED, TARGETS, Site, a_site, run

INPUTS = 12


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One for all targets."""
    with a_site() as made:
        yield made


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_refusals_comes_of_damaged_inputs(site: Site, name: str) -> None:
    make, seeds = TARGETS[name]
    target, chance = make(site), random.Random(name)
    for data in [*seeds, *(changed(chance, seeds) for _ in range(INPUTS))]:
        run(target, data)


def test_what_is_no_refusal_is_a_find() -> None:
    """Else nothing above would prove anything."""

    def wrong(_: bytes) -> None:
        raise KeyError("m")

    with pytest.raises(KeyError):
        run(wrong, b"")
    assert not any(issubclass(KeyError, expected) for expected in EXPECTED)


FOUND = {
    "upload": [
        b'--b\nContent-Type: application/json\n\n{"name": "x"}\n--b\nContent-Type: text/pl\x93ain\n\nabc\n--b--\n'
    ],
    "batch": [
        b"--b\r\nContent-ID: <\x93>\r\n\r\nGET /storage/v1/b/some-bucket/o HTTP/1.1\r\n\r\n--b--\r\n",
        b"--b\r\nContent-ID: <a\r\n X: y>\r\n\r\nGET /storage/v1/b/some-bucket/o HTTP/1.1\r\nX\x93: \x93\r\n\r\n--b--\r\n",
    ],
    "log file": [b'{"n":1,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out"}\n'],
}
"""Inputs that once were answered with 500."""


@pytest.mark.parametrize(("name", "data"), [(name, data) for name, found in FOUND.items() for data in found])
def test_what_was_found_stays_mended(site: Site, name: str, data: bytes) -> None:
    run(TARGETS[name][0](site), data)
