"""`stoker accelerators`: GPUs and TPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import session, show

if TYPE_CHECKING:
    from stoker.hardware.accelerators import Accelerator
    from stoker.hardware.gpus import Gpu


@click.command("accelerators")
@click.argument("name", required=False)
@session.json_option
def command(name: str | None, as_json: bool) -> None:
    """Look up accelerators, or all about the one of this NAME: T4, nvidia-tesla-t4, NVIDIA_TESLA_T4, "RTX 3090"."""
    from stoker.hardware.accelerators import accelerators

    found = [accelerators()[session.accelerator(name)]] if name else list(accelerators().values())
    if as_json:
        show.data({"accelerators": [_data(a) for a in found]})
    elif name:
        _details(found[0])
    else:
        rows = [[a.name, *_figures(a.chip), len(_regions(a)) or None] for a in found]
        show.table(["NAME", "CHIP", "ARCHITECTURE", "MEMORY_GB", "GB/S", "FP16_TFLOPS", "REGIONS"], rows)


def _data(accelerator: Accelerator) -> dict[str, Any]:
    from stoker.hardware.limits import counts_sold, sold_on

    return {
        "name": accelerator.name,
        "gce_name": accelerator.gce_name,
        "chip": asdict(accelerator.chip) if accelerator.chip else None,
        "counts": list(counts_sold(accelerator.name)),
        "machine_types": list(sold_on(accelerator.name)),
        "regions": _regions(accelerator),
    }


def _details(accelerator: Accelerator) -> None:
    data = _data(accelerator)
    chip = data.pop("chip") or {}
    figures = {key: value for key, value in chip.items() if value not in (None, "") and key != "gpu_id"}
    for key, value in {**data, **{("chip" if k == "name" else k): v for k, v in figures.items()}}.items():
        shown = (
            ", ".join(map(str, value))
            if isinstance(value, list)
            else f"{value:g}"
            if isinstance(value, float)
            else value
        )
        click.echo(f"{key:<22}{shown if shown != '' else '-'}")


def _figures(chip: Gpu | None) -> list[object]:
    if chip is None:
        return [None] * 5
    return [chip.name, chip.architecture, chip.memory_gb, chip.bandwidth_gb_s, chip.fp16_tflops or chip.bf16_tflops]


def _regions(accelerator: Accelerator) -> list[str]:
    from stoker.hardware.regions import regions_with

    return list(regions_with([accelerator.name]))
