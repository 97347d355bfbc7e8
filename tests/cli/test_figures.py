"""Numbers on a screen."""

from __future__ import annotations

import pytest

from stoker.cli import figures

NAN = float("nan")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figures.percent(91.4), "91 %"),
        (figures.percent(None), ""),
        (figures.percent(NAN), ""),
        (figures.share(0.914), "91 %"),
        (figures.share(None), ""),
        (figures.of(41.23 * 2**30, 80 * 2**30, 1 << 30, "GiB"), "41.2/80 GiB"),
        (figures.of(1000.0, 1200.0, 1, "W"), "1000/1200 W"),
        (figures.of(3.25e9, None, 1e9, "GB"), "3.25 GB"),
        (figures.of(None, 80.0, 1, "GB"), ""),
        (figures.celsius(61.6), "62 °C"),
        (figures.celsius(None), ""),
        (figures.speed(0.0), "0 B/s"),
        (figures.speed(999.4), "999 B/s"),
        (figures.speed(999.6), "1 kB/s"),
        (figures.speed(1.25e6), "1.25 MB/s"),
        (figures.speed(1e18), "1000000 TB/s"),
        (figures.speed(None), ""),
        (figures.number(0.0123456), "0.01235"),
        (figures.number(1234567.0), "1.235e+06"),
        (figures.number(NAN), "nan"),
        (figures.number(None), ""),
        (figures.counted(1, "GPU"), "1 GPU"),
        (figures.counted(0.5, "GPU"), "0.5 GPUs"),
    ],
)
def test_figures(shown: str, text: str) -> None:
    assert shown == text
