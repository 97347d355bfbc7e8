"""`stoker choose`: which hardware a training needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stoker.cli import session, show

Row = Mapping[str, Any]

_FITS_SHOWN, _OUT_SHOWN = 8, 8
_LEAVE_OUT = ("CORES", "GB/S", "TFLOPS", "STEP", "MARKET")


@click.command("choose")
@click.option("--parameters", metavar="COUNT", help="How many parameters the model has: 350M, 7B.")
@click.option("--batch", type=click.IntRange(1, 10_000_000), help="Examples of a step.  [default: 1, or the job's]")
@click.option("--precision", metavar="NAME", help="fp32, tf32, bf16, fp16, pure-bf16.  [default: fp32, or the job's]")
@click.option("--memory", metavar="SIZE", help="What it needs on a device, if that is known: 20GB.")
@click.option("--job", help="Begin with what this job has used.")
@click.option(
    "--task", metavar="NAME", help="study, research (the price of the work) or production.  [default: research]"
)
@click.option("--budget", metavar="USD/TIME", help="What may be spent: 3/h, 50/day, 1500/month.")
@click.option("--optimizer", metavar="NAME", help="sgd, momentum, adafactor, adam …  [default: adamw]")
@click.option("--kind", metavar="NAME", help="transformer, convolutional, recurrent, dense.  [default: transformer]")
@click.option("--framework", metavar="NAME", help="torch, tensorflow, jax.  [default: torch]")
@click.option(
    "--sequence", type=click.IntRange(1, 10_000_000), help="Positions of an example: tokens, patches, moments."
)
@click.option("--hidden", type=click.IntRange(1, 10_000_000), help="The model's width.")
@click.option("--layers", type=click.IntRange(1, 10_000_000), help="How many layers it has.")
@click.option(
    "--heads", type=click.IntRange(1, 10_000_000), help="Of attention that keeps its scores (no fused kernel)."
)
@click.option("--vocabulary", type=click.IntRange(1, 10_000_000), help="Of a language model's last layer.")
@click.option("--image", type=click.IntRange(1, 10_000_000), help="Pixels of a side of an image.  [default: 224]")
@click.option("--activations", metavar="COUNT", help="Values that an example leaves for the backward pass: 22M.")
@click.option("--checkpointing", is_flag=True, help="Activations are worked out anew in the backward pass.")
@click.option("--region", help="Of the prices.  [default: us-central1]")
@click.option("--all", "show_all", is_flag=True, help="Everything that there is.")
@session.project_option
@session.json_option
def command(project: str | None, show_all: bool, as_json: bool, **asked: Any) -> None:
    """Rank what this site has, what it orders and what clouds rent for a training: memory, bandwidth, cores, compute, price.

    stoker choose --parameters 350M --batch 64 --precision bf16, or stoker choose --memory 20GB, or stoker choose --job JOB. What
    suffices comes first, GPUs of this site before others; of the rest it says why not. docs/choose.md tells how it is worked out.
    """
    given = {name: value for name, value in asked.items() if value not in (None, False)}
    found = session.client().choose(session.the_project(project), **given)
    if as_json:
        show.data(found)
        return
    for line in (*_used(found["used"]), *_needs(found["needs"])):
        show.note(line)
    _table(found["choices"], show_all)
    for line in found["advice"]:
        show.warn(line)


def _used(used: Row | None) -> Iterator[str]:
    if used is None:
        return
    parts = [f"{used['job']} held {used['gpus']} GPU{'s' if used['gpus'] != 1 else ''}"]
    if used["peak_bytes"] is not None:
        parts.append(f"used up to {used['peak_bytes'] / 1e9:.3g} GB of one")
    if used["busy_percent"] is not None:
        parts.append(f"busy {used['busy_percent']:.0f} %")
    if used["batch"] is not None:
        parts.append(f"batch {used['batch']}")
    if used["examples_per_second"] is not None:
        parts.append(f"{used['examples_per_second']:.4g} examples a second")
    yield ", ".join(parts)
    yield from (f"  {words}" for words in used["words"])


def _needs(needs: Row | None) -> Iterator[str]:
    if needs is None:
        return
    size = _size(needs["expected_bytes"])
    if needs["source"] != "estimate":
        yield f"memory: {size} on a device, as {needs['source']}; {'; '.join(needs['assumptions'])}"
        return
    low, high = _size(needs["low_bytes"]), _size(needs["high_bytes"])
    yield f"memory: about {size} with all of it on one GPU, from {low} to {high}"
    for term in needs["terms"]:
        yield f"  {term['name']:<12}{_size(term['bytes']):>8}  {term['text']}"
    yield f"  peak: {needs['peak']}"
    yield from (f"  assumed: {words}" for words in needs["assumptions"])


def _table(rows: list[Row], show_all: bool) -> None:
    fits = [row for row in rows if row["rank"] is not None]
    out = [row for row in rows if row["rank"] is None]
    if rows and not fits:
        show.warn("nothing suffices")
    shown = rows if show_all else [*fits[:_FITS_SHOWN], *out[:_OUT_SHOWN]]
    if shown:
        headers = ["#", "WHAT", "WHERE", "MARKET", "MEMORY", "GB/S", "TFLOPS", "CORES", "USD/H", "PRICE", "STEP", "WHY"]
        show.table(headers, [_line(row) for row in shown], leave_out=_LEAVE_OUT)
    if len(shown) < len(rows):
        show.note(f"  and {len(rows) - len(shown)} more: --all")


def _line(row: Row) -> list[object]:
    name = row["name"].removeprefix("NVIDIA_").removeprefix("TESLA_")
    return [
        "out" if row["rank"] is None else str(row["rank"]),
        f"{row['count']} x {name}" if row["count"] > 1 and row["market"] != "system" else name,
        _where(row),
        row["market"],
        f"{_size(row['needed_bytes'])} of {_size(row['memory_bytes'])}",
        _figure(row["bandwidth_gb_s"]),
        "" if row["tflops"] is None else f"{row['tflops']:.4g} {row['precision']}",
        row["cores"],
        "" if row["usd_per_hour"] is None else f"{row['usd_per_hour']:.2f}",
        "" if row["relative_price"] is None or row["rank"] is None else f"{row['relative_price']:.2f} x",
        _time(row["step_seconds"]),
        "; ".join(row["why"]),
    ]


def _where(row: Row) -> str:
    if row["place"] in ("site", "pool"):
        return f"{row['place']}: {row['machine']}"
    if row["place"] == "purchase":
        return "bought"
    return f"{row['provider']}: {row['machine']}"


def _size(size: float) -> str:
    from stoker.hardware.choosing.amounts import gigabytes

    return gigabytes(size)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
