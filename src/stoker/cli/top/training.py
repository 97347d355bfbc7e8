"""How a job trains, as lines: steps a second, what it waits for, and its values, each over the time of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from stoker.cli import figures
from stoker.cli.sparkline import sparkline

from .line import Line, fitted, plain

_MOST_BARS = 80
_NAME, _NUMBER, _GAPS = 20, 12, 4


def training_lines(steps: Mapping[str, Any] | None, width: int) -> Iterator[Line]:
    """Of the first replica. `steps`: as the server tells them; None: not yet."""
    if steps is None or not steps["replicas"]:
        yield Line((("looking how it trains" if steps is None else "it has told of no step yet", "dim"),))
        return
    first = steps["replicas"][0]
    room = max(0, min(_MOST_BARS, width - _NAME - _NUMBER - _GAPS))
    yield _line("step", str(first["step"]), "")
    speeds = sparkline(_series(first, "steps_per_second"), room, from_zero=True)
    yield _line("steps/s", figures.number(first["steps_per_second"]), speeds)
    if first["data_wait_share"] is not None:
        waits = sparkline(_series(first, "data_wait_share"), room, from_zero=True, most=1.0)
        yield _line("data wait", figures.share(first["data_wait_share"]), waits)
    for name, last in first["values"].items():
        values = [_float(point["values"].get(name)) for point in first["series"]]
        yield _line(plain(name), figures.number(_float(last)), sparkline(values, room))
    for finding in steps["findings"]:
        for n, text in enumerate(wrap(f"! {plain(finding['text'])}", max(20, width), subsequent_indent="  ")):
            yield Line(((text, "" if n else "warn"),))


def _line(name: str, text: str, bars: str) -> Line:
    return Line(
        (
            (fitted(name, _NAME), "dim"),
            ("  ", ""),
            (fitted(text, _NUMBER, is_right=True), ""),
            ("  ", ""),
            (bars, "busy"),
        )
    )


def _series(replica: Mapping[str, Any], name: str) -> Sequence[float | None]:
    return [point[name] for point in replica["series"]]


def _float(value: object) -> float | None:
    """A value that a program has reported; those that are no numbers come as texts."""
    return None if value is None else float(str(value))
