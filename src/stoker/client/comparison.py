"""What a probe has measured of several kinds of hardware, compared: speed, efficiency, price, and which is worth it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SAME_SPEED = 0.9
"""Whoever has at least this part of another's speed is as quick: short measurements scatter by as much."""

INPUT_BOUND = 1 / 3
"""From such a share of its time on, a training waits for data above all (control/steps.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A candidate, and how the program trained on it. Rates are of all its replicas together."""

    candidate: str
    job: str = ""
    problem: str = ""  # why nothing was measured; empty: it was
    machines: str = ""
    kind: str = ""  # the accelerator; empty: none
    devices: int = 1  # accelerators, or machines without any
    steps_per_second: float | None = None  # of the chief
    examples_per_second: float | None = None
    data_wait_share: float | None = None  # of the replica that waits most
    together_share: float | None = None
    epoch_seconds: float | None = None
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The same beside the first that was measured."""

    measured: Measured
    speed_up: float | None  # None: they have no measure in common
    efficiency: float | None  # of more devices of the same kind; None: they are no more of it
    usd: float | None  # per unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All of them."""

    unit: str  # what is priced: `epoch`, `million examples`, `1000 steps`
    rows: Sequence[Compared]

    @property
    def measured(self) -> list[Compared]:
        """Those that trained."""
        return [row for row in self.rows if row.speed_up is not None]


def compared(found: Sequence[Measured]) -> Comparison:
    """Set them beside the first that trained."""
    trained = [one for one in found if not one.problem]
    if trained and all(one.examples_per_second for one in trained):
        speeds = {one.candidate: one.examples_per_second or 0.0 for one in trained}
    elif trained and all(one.epoch_seconds for one in trained):
        speeds = {one.candidate: 1 / (one.epoch_seconds or 1.0) for one in trained}
    else:
        speeds = {one.candidate: one.steps_per_second or 0.0 for one in trained}
    unit, hours = _unit(trained)
    rows = []
    for one in found:
        speed, base = speeds.get(one.candidate), trained[0] if trained else one
        speed_up = speed / speeds[base.candidate] if speed and speeds[base.candidate] else None
        grows = one.kind == base.kind and one.devices > base.devices
        usd = one.usd_per_hour * hours[one.candidate] if one.usd_per_hour is not None and speed_up else None
        rows.append(
            Compared(
                measured=one,
                speed_up=speed_up,
                efficiency=speed_up * base.devices / one.devices if speed_up and grows else None,
                usd=usd,
            )
        )
    return Comparison(unit=unit, rows=rows)


def _unit(trained: Sequence[Measured]) -> tuple[str, dict[str, float]]:
    """What all can be priced by, and how many hours each takes for it."""
    if all(one.epoch_seconds for one in trained):
        return "epoch", {one.candidate: (one.epoch_seconds or 0.0) / 3600 for one in trained}
    if all(one.examples_per_second for one in trained):
        return "million examples", {one.candidate: 1e6 / (one.examples_per_second or 1.0) / 3600 for one in trained}
    return "1000 steps", {one.candidate: 1e3 / (one.steps_per_second or 1.0) / 3600 for one in trained}


def advice(found: Comparison) -> Iterator[str]:
    """What the numbers say, for people: each beside the first, and last which to take."""
    trained = found.measured
    if not trained:
        yield "nothing could be measured, so there is nothing to recommend"
        return
    base = trained[0]
    for row in trained[1:]:
        dearer = _dearer(row.usd, base.usd)
        yield f"{row.measured.candidate}: {_times(row, base)}" + (f", {dearer} per {found.unit}" if dearer else "")
    if len(trained) > 1:
        yield _choice(trained, found.unit)


def _choice(trained: Sequence[Compared], unit: str) -> str:
    quickest = max(trained, key=_speed)
    enough = min((row for row in trained if _speed(row) >= SAME_SPEED * _speed(quickest)), key=_burden)
    name, waits = enough.measured.candidate, enough.measured.data_wait_share or 0.0
    if any(_burden(row) > _burden(enough) and _speed(row) < _speed(enough) / SAME_SPEED for row in trained):
        because = "nothing larger is clearly quicker"
        if waits >= INPUT_BOUND:
            because = f"it waits for data {100 * waits:.0f} % of its time, which larger hardware does not change"
        if enough is min(trained, key=_burden):
            return f"→ {name} is enough: {because}"
    if any(row.usd is None for row in trained):
        best = f", at {100 * enough.efficiency:.0f} % efficiency" if enough.efficiency is not None else ""
        return f"→ {name} is the quickest{best}; not all prices are known here, so the choice is yours"
    cheapest = min(trained, key=lambda row: row.usd or 0.0)
    if cheapest is enough:
        return f"→ {name}: the quickest, and the cheapest per {unit}"
    dearer = _dearer(enough.usd, cheapest.usd)
    return f"→ {cheapest.measured.candidate} is the cheapest per {unit}; {name} is {_times(enough, cheapest)}, {dearer}"


def _speed(row: Compared) -> float:
    return row.speed_up or 0.0


def _burden(row: Compared) -> tuple[float, bool, int]:
    """What it takes away from others: its price by the hour, or the devices where none is known."""
    return (row.measured.usd_per_hour or 0.0, bool(row.measured.kind), row.measured.devices)


def _times(row: Compared, base: Compared) -> str:
    factor = _speed(row) / _speed(base)
    text = f"{factor:.2f}x as quick as {base.measured.candidate}"
    return f"{text} ({100 * row.efficiency:.0f} % efficiency)" if row.efficiency is not None else text


def _dearer(usd: float | None, other: float | None) -> str:
    """`20 % dearer`; empty: not known."""
    if usd is None or not other:
        return ""
    percent = round(100 * (usd / other - 1))
    return "as dear" if not percent else f"{abs(percent)} % {'dearer' if percent > 0 else 'cheaper'}"
