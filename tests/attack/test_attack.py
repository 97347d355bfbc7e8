"""The attacks by names and files, for a few seconds each; `make attack` goes on for a minute, and floods the machine as well."""

from __future__ import annotations

import pytest

from .__main__ import LEVELS, attack, why_not

pytestmark = [pytest.mark.live, pytest.mark.campaign]
SECONDS = 8.0
ATTACKS = ("raced steps", "raced reads", "raced writes", "raced starts", "plain paths", "traversal", "replays")


@pytest.mark.skipif(bool(why_not()), reason=f"needs {why_not()}")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_is_let_in(name: str, level: int) -> None:
    tries = attack(name, level, SECONDS)
    assert tries.count and not tries.let_in, f"{tries.notes}\n" + "\n".join(dict.fromkeys(tries.let_in))
