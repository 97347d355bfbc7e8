"""The tables of docs/choose.md: what hardware there is, and what a parameter takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.markdown import table
from stoker.hardware.choosing.offers import Offer, Place, catalog_offers
from stoker.hardware.choosing.training_memory import estimate
from stoker.hardware.choosing.workload import OPTIMIZER_STATES, ModelKind, Precision, Workload

PAGE = Path(__file__).parent / "choose.md"
BEGIN_HARDWARE, BEGIN_PARAMETER = (
    "<!-- drawn by docs/draw.py from hardware/data/ -->",
    "<!-- drawn by docs/draw.py from hardware/choosing/training_memory.py -->",
)
END = "<!-- end of what is drawn -->"


def choose() -> str:
    """The page, with the tables as they are now."""
    text = PAGE.read_text()
    hardware = table(
        ["what", "market", "memory, GB", "GB/s", "fp32", "bf16 or fp16", "cores", "ECC", "USD/h, cheapest"],
        list(_hardware()),
    )
    parameter = table(["optimizer", *(f"`{p}`" for p in Precision)], list(_parameter()))
    for begin, drawn in ((BEGIN_HARDWARE, hardware), (BEGIN_PARAMETER, parameter)):
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{drawn}\n\n{END}{rest.partition(END)[2]}"
    return text


def _hardware() -> Iterator[list[str]]:
    """Each accelerator once, in its smallest count."""
    seen: set[str] = set()
    for offer in catalog_offers(with_tpus=True):
        if offer.chip is None or offer.name in seen:
            continue
        seen.add(offer.name)
        yield _line(offer)


def _line(offer: Offer) -> list[str]:
    chip = offer.chip
    assert chip is not None
    name = f"{offer.count} x `{offer.name}`" if offer.count > 1 and offer.place is Place.CLOUD else f"`{offer.name}`"
    half = chip.bf16_tflops or chip.fp16_tflops
    price = "bought" if offer.usd_per_hour is None else f"{offer.usd_per_hour:.2f} ({offer.provider})"
    figures = (chip.memory_gb, chip.bandwidth_gb_s, chip.fp32_tflops, half, chip.cores)
    return [name, offer.market, *("" if value is None else f"{value:g}" for value in figures), chip.ecc, price]


def _parameter() -> Iterator[list[str]]:
    for optimizer in OPTIMIZER_STATES:
        works = [Workload(parameters=1.0, precision=p, optimizer=optimizer, kind=ModelKind.DENSE) for p in Precision]
        found = [estimate(work) for work in works]
        names = ("weights", "gradients", "optimizer", "copies")
        yield [f"`{optimizer}`", *(f"{sum(one.part(name) for name in names):g}" for one in found)]
