"""What Ray calls accelerators. Pure: Ray need not be installed.

Its names are those of `ray.util.accelerators`; a test compares them. Of two chips that have one name there (A100 with 40 and
with 80 GB) only one has it here: the other keeps our name, so that a node tells which it is.
"""

from __future__ import annotations

from collections.abc import Mapping

RAY_NAMES: Mapping[str, str] = {
    "NVIDIA_TESLA_K80": "K80",
    "NVIDIA_TESLA_P4": "P4",
    "NVIDIA_TESLA_P100": "P100",
    "NVIDIA_TESLA_T4": "T4",
    "NVIDIA_TESLA_V100": "V100",
    "NVIDIA_TESLA_A100": "A100",
    "NVIDIA_A10G": "A10G",
    "NVIDIA_L4": "L4",
    "NVIDIA_L40S": "L40S",
    "NVIDIA_H100_80GB": "H100",
    "NVIDIA_H200_141GB": "H200",
    "NVIDIA_B200": "B200",
    "NVIDIA_B300": "B300",
    "NVIDIA_GB200": "GB200",
    "NVIDIA_GB300": "GB300",
    "NVIDIA_RTX_PRO_6000": "RTX-PRO-6000",
}
"""Catalog name → Ray's name."""


def ray_name(accelerator: str) -> str:
    """What a Ray node is labelled with for an accelerator of the catalog: Ray's own name, or ours where it has none."""
    return RAY_NAMES.get(accelerator, accelerator)
