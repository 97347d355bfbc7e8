"""What helps where no single device holds a training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .amounts import gigabytes
from .offers import Offer
from .ranking import HEADROOM, Need
from .training_memory import CONTEXT_BYTES, Estimate, estimate
from .workload import ModelKind, Precision, Workload

MOST_SHARDS = 4096


def advice(need: Need, offers: Sequence[Offer]) -> list[str]:
    """What to do where no single device suffices, or none of the site's own; nothing, where one does."""
    gpus = [offer for offer in offers if offer.chip is not None and _may_be_paid(need, offer)]
    if not gpus:
        return ["no accelerator costs so little: raise the budget"] if need.budget_usd_per_hour is not None else []
    largest = max(gpus, key=lambda offer: offer.device_bytes)
    if need.work is None or need.memory_bytes:
        needed = need.memory_bytes * HEADROOM
        return [_without_a_model(needed, largest)] if largest.device_bytes < needed else []
    now = estimate(need.work)
    own = max((offer for offer in gpus if offer.is_own), key=lambda offer: offer.device_bytes, default=None)
    here: list[str] = []
    if own is not None and own is not largest and now.expected_bytes > own.device_bytes:
        here = [f"on this site, {words}" for words in _changes(need.work, own)]
    if now.expected_bytes <= largest.device_bytes:
        return here
    none = f"no single device holds all of it: the largest, {largest.name}, has {gigabytes(largest.device_bytes)}"
    return [*here, none, *_changes(need.work, largest), *_shards(need.work, now, largest)]


def _may_be_paid(need: Need, offer: Offer) -> bool:
    budget = need.budget_usd_per_hour
    return budget is None or offer.is_own or (offer.usd_per_hour is not None and offer.usd_per_hour <= budget)


def _without_a_model(needed: float, largest: Offer) -> str:
    return (
        f"no device has {gigabytes(needed)}; the largest, {largest.name}, has {gigabytes(largest.device_bytes)}. Several help"
        " only if the program divides its model among them: data parallel training has all of it on each"
    )


def _changes(work: Workload, largest: Offer) -> Iterator[str]:
    """Changes of the training by which it fits the largest device, the mildest first."""
    room, name = largest.device_bytes, f"{largest.name} ({gigabytes(largest.device_bytes)})"
    batch = largest_batch(work, room)
    if batch:
        yield (
            f"a batch of {batch} fits {name}, {gigabytes(estimate(replace(work, batch=batch)).expected_bytes)}: add up the"
            f" gradients of {-(-work.batch // batch)} such to have a batch of {work.batch}"
        )
        yield (
            f"with data parallel training, {-(-work.batch // batch)} of them, each with a part of the batch and all weights"
        )
    for words, changed in _alternatives(work):
        size = estimate(changed).expected_bytes
        if size <= room:
            yield f"{words}: {gigabytes(size)}, which fits {name}"


def _alternatives(work: Workload) -> Iterator[tuple[str, Workload]]:
    if not work.checkpointing and work.kind is ModelKind.TRANSFORMER and not work.activations:
        yield "gradient checkpointing, for a third more work", replace(work, checkpointing=True)
    if work.precision in (Precision.FP32, Precision.TF32):
        yield "--precision bf16", replace(work, precision=Precision.BF16)
    if work.optimizer in ("adam", "adamw"):
        yield "an optimizer that keeps less (adafactor)", replace(work, optimizer="adafactor")
    if work.precision is not Precision.PURE_BF16:
        yield (
            "weights and optimizer in bf16, too (pure-bf16), with less exact updates",
            replace(work, precision=Precision.PURE_BF16),
        )


def largest_batch(work: Workload, room_bytes: float) -> int:
    """The largest batch that so much memory holds, halving it; 0: not even one example fits."""
    batch = work.batch
    while batch and estimate(replace(work, batch=batch)).expected_bytes > room_bytes:
        batch //= 2
    return batch


def _shards(work: Workload, now: Estimate, largest: Offer) -> Iterator[str]:
    """How many devices hold it, if the program divides weights, gradients and optimizer among them as well."""
    divided = sum(now.part(name) for name in ("weights", "optimizer", "gradients", "copies", "update"))
    room = largest.device_bytes - CONTEXT_BYTES
    for devices in (2**n for n in range(1, 13)):
        rest = estimate(work, devices=devices)
        if (divided / devices + rest.part("activations") + rest.part("at_once")) * 1.05 <= room:
            yield (
                f"{devices} x {largest.name}, if the program divides weights, gradients and optimizer among them (FSDP, ZeRO);"
                f" data parallel training alone does not: it has {gigabytes(divided)} of them on each"
            )
            return
    if not work.checkpointing and work.kind is ModelKind.TRANSFORMER and not work.activations:
        changed = replace(work, checkpointing=True)
        yield from (f"with gradient checkpointing, {words}" for words in _shards(changed, estimate(changed), largest))
        return
    yield f"not even {MOST_SHARDS} x {largest.name} that divide the model would hold it"
