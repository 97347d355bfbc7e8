"""What a probe has measured of several kinds of hardware, compared: speed, efficiency, price, and which is worth it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SAME_SPEED = 0.9
"""Whoever has at least this part of another's speed is as quick: short measurements scatter by as much."""

INPUT_BOUND = 1 / 3
"""From such a share of its time on, a training waits for data above all (insight/training_steps.py)."""

EPOCH, EXAMPLES, STEPS = "epoch", "million examples", "1000 steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A candidate, and how the program trained on it. Rates are of all its replicas together."""

    candidate: str
    job: str = ""
    problem: str = ""  # why nothing was measured; empty: it was
    machines: str = ""
    size: str = ""  # of each machine: its type, or its vCPUs
    kind: str = ""  # the accelerator; empty: none
    devices: int = 1  # accelerators, or machines without any
    in_step: int | None = None  # so many copies of the model train as one; None: nobody has looked
    steps_per_second: float | None = None  # of the chief
    examples_per_second: float | None = None
    data_wait_share: float | None = None  # of the replica that waits most
    together_share: float | None = None
    epoch_seconds: float | None = None
    usd_per_hour: float | None = None

    @property
    def busy_share(self) -> float | None:
        """What is left of its time when it waits neither for data nor for others. None: not known."""
        if self.data_wait_share is None:
            return None
        return max(0.0, 1 - self.data_wait_share - (self.together_share or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A measurement beside that of the first candidate that trained."""

    measured: Measured
    speed_up: float | None  # None: it did not train
    efficiency: float | None  # of more devices of the same kind; None: they are no more of it, or it cannot be told
    usd: float | None  # per unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All of them."""

    unit: str  # what is compared and priced: EPOCH, EXAMPLES or STEPS
    rows: Sequence[Compared]

    @property
    def measured(self) -> list[Compared]:
        """The candidates that trained."""
        return [row for row in self.rows if row.speed_up is not None]


def compared(found: Sequence[Measured]) -> Comparison:
    """Set them beside the first that trained, by what is known of all."""
    trained = [one for one in found if not one.problem and one.steps_per_second]
    unit, hours = _unit(trained)
    return Comparison(unit=unit, rows=[_beside(one, trained, unit, hours) for one in found])


def _beside(one: Measured, trained: Sequence[Measured], unit: str, hours: dict[str, float]) -> Compared:
    if one not in trained:
        return Compared(measured=one, speed_up=None, efficiency=None, usd=None)
    base = trained[0]
    speed_up = hours[base.candidate] / hours[one.candidate]
    is_more = one.kind == base.kind and one.devices > base.devices and (bool(one.kind) or one.size == base.size)
    return Compared(
        measured=one,
        speed_up=speed_up,
        efficiency=speed_up * base.devices / one.devices if is_more and not _may_be_copies(one, unit) else None,
        usd=None if one.usd_per_hour is None else one.usd_per_hour * hours[one.candidate],
    )


def _may_be_copies(one: Measured, unit: str) -> bool:
    """Whether more of the unit may be the same once more: copies that train each for itself, or steps of another size."""
    return unit == STEPS or (unit == EXAMPLES and one.devices > 1 and one.in_step != one.devices)


def _unit(trained: Sequence[Measured]) -> tuple[str, dict[str, float]]:
    """What all can be measured by, and how many hours each takes for it.

    Epochs come first: copies that go each through all the data have more examples a second, and are no quicker.
    """
    if all(one.epoch_seconds for one in trained):
        return EPOCH, {one.candidate: (one.epoch_seconds or 0.0) / 3600 for one in trained}
    if all(one.examples_per_second for one in trained):
        return EXAMPLES, {one.candidate: 1e6 / (one.examples_per_second or 1.0) / 3600 for one in trained}
    return STEPS, {one.candidate: 1e3 / (one.steps_per_second or 1.0) / 3600 for one in trained}


def advice(found: Comparison) -> Iterator[str]:
    """What the numbers say, for people: each beside the first, what is doubtful, and last which to take."""
    trained = found.measured
    if not trained:
        yield "nothing could be measured, so there is nothing to recommend"
        return
    for row in trained[1:]:
        efficiency = "" if row.efficiency is None else f" ({_percent(row.efficiency)} efficiency)"
        parts = [_times(row, trained[0]) + efficiency, _dearer(row.usd, trained[0].usd, f" per {found.unit}")]
        yield f"{row.measured.candidate}: {', '.join(filter(None, parts))}"
    yield from _doubts(found)
    are_copies = found.unit == EXAMPLES and any(_may_be_copies(row.measured, EXAMPLES) for row in trained)
    if len(trained) > 1 and not _is_by_unequal_steps(found) and not are_copies:
        yield _choice(trained, found.unit)


def _doubts(found: Comparison) -> Iterator[str]:
    for row in found.measured:
        one = row.measured
        if one.devices > 1 and one.in_step != one.devices:
            seen = "nobody has looked" if one.in_step is None else f"{one.in_step} was seen"
            yield f"{one.candidate}: whether its {one.devices} train as one is not known ({seen})"
    if _is_by_unequal_steps(found):
        yield (
            "→ compared by steps alone, and a step may hold more examples on more devices: have the program tell them, by "
            "stoker.step(examples=…)"
        )


def _is_by_unequal_steps(found: Comparison) -> bool:
    return found.unit == STEPS and len({row.measured.devices for row in found.measured}) > 1


def _choice(trained: Sequence[Compared], unit: str) -> str:
    are_priced = all(row.usd is not None for row in trained)

    def burden(row: Compared) -> tuple[float, bool, int]:
        """What it takes away from others: its price by the hour, or its devices where not all prices are known."""
        one = row.measured
        return ((one.usd_per_hour or 0.0) if are_priced else 0.0, bool(one.kind), one.devices)

    quickest = max(trained, key=_speed)
    enough = min((row for row in trained if _speed(row) >= SAME_SPEED * _speed(quickest)), key=burden)
    name, waits = enough.measured.candidate, enough.measured.data_wait_share or 0.0
    if enough is min(trained, key=burden):
        because = "nothing larger is clearly quicker"
        if waits >= INPUT_BOUND:
            because = f"it waits for data {_percent(waits)} of its time, which larger hardware does not change"
        return f"→ {name} is enough: {because}"
    praise = "the quickest" if enough is quickest else "as quick as any"
    if not are_priced:
        return f"→ {name} is {praise}; not all prices are known here, so the choice is yours"
    cheapest = min(trained, key=lambda row: row.usd or 0.0)
    if cheapest is enough:
        return f"→ {name}: {praise}, and the cheapest per {unit}"
    parts = [_times(enough, cheapest), _dearer(enough.usd, cheapest.usd, "")]
    return f"→ {cheapest.measured.candidate} is the cheapest per {unit}; {name} is {', '.join(filter(None, parts))}"


def _speed(row: Compared) -> float:
    return row.speed_up or 0.0


def _times(row: Compared, other: Compared) -> str:
    return f"{_speed(row) / _speed(other):.2f}x as quick as {other.measured.candidate}"


def _dearer(usd: float | None, other: float | None, what: str) -> str:
    """`20 % dearer per epoch`; empty: not known."""
    if usd is None or not other:
        return ""
    percent = round(100 * (usd / other - 1))
    return f"{abs(percent)} % {'dearer' if percent > 0 else 'cheaper'}{what}" if percent else f"as dear{what}"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
