"""How long something takes, as people write it."""

from __future__ import annotations

import pytest

from stoker.core.durations import duration_of, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("30M", 1800), (" 2h ", 7200), ("2d", 172800), ("0", 0)],
)
def test_what_people_write(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "3x", "-1", "1h30m", "1e3", "nan", "9" * 20, "٣m"])
def test_what_is_none_says_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 30m, 1h or 2d"):
        seconds_of(text)


@pytest.mark.parametrize("seconds", [0.0, 0.2, 90.0, 1800.0])
def test_as_a_label_it_is_never_less(seconds: float) -> None:
    assert seconds <= seconds_of(duration_of(seconds)) < seconds + 1 and "." not in duration_of(seconds)
