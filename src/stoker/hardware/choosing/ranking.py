"""Which hardware to take: what suffices first, by what the task counts; of the others, why not, in words.

The criteria are those of the documents this catalog comes from: memory that suffices, bandwidth, cores, processing power, and the
budget. A roofline makes one of the three in the middle (`speed.py`); what is left of the price is that of a unit of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .amounts import gigabytes
from .offers import NOT_ORDERED, PRIVATE_HOSTS, SYSTEM, Offer, Place
from .speed import Rates, cpu_rates, rates_of, relative_speed, step_seconds, work_of
from .training_memory import Estimate, estimate
from .workload import Framework, Precision, Workload

CPU_ENOUGH_SECONDS = 0.25
"""A step that processors do in so much time needs no GPU: ten thousand of them take three quarters of an hour."""

HEADROOM = 1.1
"""Memory that was measured, or named, is to be there with so much room."""

_ALIKE = 1.05  # what costs no more than that many times as much costs the same
_TIGHT = 1.25
_MILLION = 1e6


class Task(StrEnum):
    """What it is for, and so what counts."""

    STUDY = "study"  # to learn: the cheapest that suffices, processors first
    RESEARCH = "research"  # the price of the work
    PRODUCTION = "production"  # made for data centres, memory that corrects errors, to be had


_BEST = {
    (Task.STUDY, True): "the cheapest by the hour that suffices",
    (Task.RESEARCH, True): "the least price for a unit of work of all that suffice",
    (Task.PRODUCTION, True): "the least price for a unit of work of what is made for data centres and can be ordered",
    **{(task, False): "the quickest of all that suffice: no price is known" for task in Task},
}
"""What speaks for the best that is not the site's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is to be trained, and what may be spent. One of `work` and `memory_bytes` is there."""

    task: Task = Task.RESEARCH
    work: Workload | None = None
    memory_bytes: float = 0.0  # of each device, as it was named or measured; 0: the estimate counts
    precision: Precision = Precision.FP32
    framework: Framework = Framework.TORCH
    budget_usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """An offer, and what becomes of the training on it."""

    offer: Offer
    is_fit: bool
    needed_bytes: float  # of each device
    batch: int  # of each device; 0: not known
    precision: str  # in which it computes
    step_seconds: float | None  # None: nobody has said what is trained
    examples_per_second: float | None
    speed: float  # only to be compared with others'
    usd_per_million: float | None  # examples
    usd_per_work: float | None  # a price for its speed: only to be compared with others'
    is_more: bool  # than is needed: one of its devices would suffice
    why: tuple[str, ...]  # it is not taken, or what to know


def rank(need: Need, offers: Iterable[Offer]) -> list[Ranked]:
    """All offers, the best first, then those that are out. Of an accelerator's counts only the least that suffices."""
    judged = [found for found in (_judged(need, offer) for offer in offers) if found is not None]
    kept = _least_counts(judged)
    quickest = max((one.speed for one in kept if one.is_fit), default=0.0)
    kept = [_without_slow_cpu(need, one, quickest) for one in kept]
    fits = sorted((one for one in kept if one.is_fit), key=lambda one: _key(need, one))
    out = sorted((one for one in kept if not one.is_fit), key=_nearest)
    best = fits[0] if fits else None
    return [*(_compared(one, best, need.task) for one in fits), *out]


def _judged(need: Need, offer: Offer) -> Ranked | None:
    """What becomes of it on this machine; None: nothing is known of its speed."""
    rates = cpu_rates(offer.vcpus) if offer.chip is None else rates_of(offer.chip, need.precision)
    if rates is None or (offer.vcpus <= 0 and offer.is_cpu):
        return None
    devices = max(1, offer.count)
    memory = _memory(need, offer, devices)
    needed = memory.expected_bytes if memory is not None and not need.memory_bytes else need.memory_bytes * HEADROOM
    seconds, examples, speed = None, None, relative_speed(rates, devices)
    if need.work is not None and memory is not None:
        work = work_of(need.work, estimate(need.work, is_gpu=not offer.is_cpu))
        seconds = step_seconds(work, need.work.batch, rates, devices)
        examples = speed = need.work.batch / seconds
    usd = offer.usd_per_hour
    why = tuple(_why_not(need, offer, needed, memory))
    alone = needed if need.memory_bytes or need.work is None else estimate(need.work).expected_bytes
    is_more = devices > 1 and alone <= offer.device_bytes
    return Ranked(
        offer=offer,
        is_fit=not why,
        needed_bytes=needed,
        batch=-(-need.work.batch // devices) if need.work is not None else 0,
        precision=rates.precision,
        step_seconds=seconds,
        examples_per_second=examples,
        speed=speed,
        usd_per_million=None if usd is None or not examples else usd / (3600 * examples) * _MILLION,
        usd_per_work=None if usd is None else usd / speed,
        is_more=is_more,
        why=why or (*_more_words(offer, is_more), *_to_know(need, offer, rates, needed, memory)),
    )


def _more_words(offer: Offer, is_more: bool) -> tuple[str, ...]:
    return (f"one of the {offer.count} would suffice",) if is_more else ()


def _memory(need: Need, offer: Offer, devices: int) -> Estimate | None:
    return estimate(need.work, devices=devices, is_gpu=not offer.is_cpu) if need.work is not None else None


def _why_not(need: Need, offer: Offer, needed: float, memory: Estimate | None) -> Iterable[str]:
    """What speaks against it, whatever the others are."""
    if offer.memory_bytes < needed:
        each = " on each" if offer.count > 1 else ""
        yield f"{gigabytes(offer.memory_bytes)} < {gigabytes(needed)} needed{each}"
    usd, budget = offer.usd_per_hour, need.budget_usd_per_hour
    if budget is not None and not offer.is_own:
        if usd is None:
            yield f"no price by the hour is known, to hold against {budget:g} USD/h"
        elif usd > budget:
            yield f"{usd:.2f} USD/h > {budget:g} USD/h of the budget"
    if any("is retired on Google" in note for note in offer.notes):
        yield "the cloud rents it no more"
    if offer.chip is None:
        if need.work is None:
            yield "whether processors are enough cannot be told without --parameters"
        return
    if offer.name.startswith("TPU_") and need.framework is Framework.TORCH:
        yield "trains JAX and TensorFlow alone"
    if need.task is Task.PRODUCTION:
        if offer.chip.market != "data-centre":
            yield f"{offer.chip.market}: not made to run in a data centre day and night"
        elif offer.chip.ecc != "yes":
            yield "its memory corrects no errors"
        if PRIVATE_HOSTS in offer.notes:
            yield PRIVATE_HOSTS
        if offer.place is Place.CLOUD and not offer.regions:
            yield "no region has it"


def _to_know(need: Need, offer: Offer, rates: Rates, needed: float, memory: Estimate | None) -> Iterable[str]:
    """What to know of one that suffices."""
    if memory is not None and not need.memory_bytes and offer.memory_bytes < _TIGHT * needed:
        yield f"tight: {gigabytes(needed)} of {gigabytes(offer.memory_bytes)}"
    wanted = "bf16" if need.precision is Precision.PURE_BF16 else str(need.precision)
    if not rates.is_cpu and rates.precision != wanted:
        half = (
            ", fp16 would be quicker" if wanted == "bf16" and offer.chip is not None and offer.chip.fp16_tflops else ""
        )
        yield f"has no {wanted}: computes in {rates.precision}{half}"
    if offer.count > 1 and need.work is not None:
        yield f"the batch is divided into {offer.count}, the model is on each as a whole"
    if offer.chip is not None and offer.chip.vendor not in ("nvidia", "google"):
        yield f"needs a framework that is built for {offer.chip.vendor.upper()}"
    yield from offer.notes


def _least_counts(judged: Sequence[Ranked]) -> list[Ranked]:
    """Of each accelerator at each place: the fewest that suffice; where none do, the most. Of processors: see `_best_cpu`."""
    groups: dict[tuple[object, ...], list[Ranked]] = {}
    for one in judged:
        offer = one.offer
        place = (offer.place, offer.machine) if offer.place is not Place.CLOUD else (offer.place,)
        groups.setdefault((offer.name, *place), []).append(one)
    kept = []
    for group in groups.values():
        if group[0].offer.is_cpu:
            kept.append(_best_cpu(group))
            continue
        fits = [one for one in group if one.is_fit]
        roomy = [one for one in group if one.offer.memory_bytes >= one.needed_bytes]
        if fits or roomy:
            kept.append(min(fits or roomy, key=lambda one: (len(one.why) if not fits else 0, one.offer.count)))
        else:
            kept.append(min(group, key=lambda one: (len(one.why), -one.offer.count)))
    return kept


def _best_cpu(group: Sequence[Ranked]) -> Ranked:
    """The cheapest machine that is quick enough, or else the quickest of those that have the memory."""
    fits = [one for one in group if one.is_fit] or list(group)
    enough = [one for one in fits if (one.step_seconds or 0.0) <= CPU_ENOUGH_SECONDS]
    if enough:
        return min(enough, key=lambda one: (one.offer.usd_per_hour or 0.0, -one.offer.vcpus))
    return max(fits, key=lambda one: one.speed)


def _without_slow_cpu(need: Need, one: Ranked, quickest: float) -> Ranked:
    """Processors are out where a step takes long on them."""
    seconds = one.step_seconds
    if not one.offer.is_cpu or not one.is_fit or seconds is None or seconds <= CPU_ENOUGH_SECONDS:
        return one
    times = f", {quickest / one.speed:,.0f} times as long as on the quickest" if quickest > one.speed else ""
    return replace(one, is_fit=False, why=(f"a step takes about {_time(seconds)}{times}",))


def _key(need: Need, one: Ranked) -> tuple[object, ...]:
    """The best is the least: what is there already, then by what the task counts; what has no price comes last."""
    offer = one.offer
    unpriced = offer.usd_per_hour is None and not offer.is_own
    by_price = one.usd_per_work if one.usd_per_work is not None else 1.0 / one.speed
    is_hard = PRIVATE_HOSTS in offer.notes or (need.task is Task.PRODUCTION and NOT_ORDERED in offer.notes)
    if need.task is Task.STUDY:
        first = (not offer.is_cpu, offer.free == 0, offer.usd_per_hour or 0.0, offer.device_bytes * offer.count)
        return (not (offer.is_own or offer.is_cpu), unpriced, offer.market == SYSTEM, one.is_more, *first, by_price)
    is_paid = offer.is_own and offer.usd_per_hour is not None  # it was ordered, and may be given back
    own = (not offer.is_own, offer.place is not Place.POOL, offer.free == 0, is_paid)
    return (*own, unpriced, offer.market == SYSTEM, one.is_more, is_hard, by_price, -offer.regions)


def _nearest(one: Ranked) -> tuple[float, str]:
    """Of those that are out, first what lacks something else than memory, then by how much of it they lack."""
    return max(1.0, one.needed_bytes / one.offer.memory_bytes), one.offer.name


def _compared(one: Ranked, best: Ranked | None, task: Task) -> Ranked:
    """What speaks for the best, in words, and why the others come after it."""
    if best is None:
        return one
    if one is best:
        own = one.offer.is_own
        return replace(one, why=("this site has it" if own else _BEST[task, one.usd_per_work is not None], *one.why))
    words = []
    if best.offer.is_own and not one.offer.is_own:
        words.append("not of this site")
    elif task is Task.STUDY and one.offer.usd_per_hour and best.offer.usd_per_hour:
        if one.offer.usd_per_hour > _ALIKE * best.offer.usd_per_hour:
            words.append(f"costs {_times(one.offer.usd_per_hour / best.offer.usd_per_hour)} times as much an hour")
    elif one.usd_per_work is not None and best.usd_per_work:
        times = one.usd_per_work / best.usd_per_work
        if times > _ALIKE:
            words.append(f"costs {_times(times)} times as much for each unit of work")
    speed = one.speed / best.speed
    if speed < 1 / _ALIKE:
        words.append(f"{_times(1 / speed)} times as slow")
    elif speed > _ALIKE:
        words.append(f"{_times(speed)} times as quick")
    return replace(one, why=(*words, *one.why))


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"


def _time(seconds: float) -> str:
    return (
        f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.2g} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    )
