"""The accelerator chips themselves: memory, peak rates, power and links, cloud cards and desktop cards alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stoker.hardware.table import figure, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One chip as its vendor describes it; rates are dense TFLOPS, None means that no figure is known."""

    gpu_id: str
    name: str
    vendor: str
    form: str  # PCIe, SXM4, OAM, board …
    architecture: str
    compute_capability: str  # CUDA's "8.0", or AMD's "gfx942"
    aip_type: str  # NVIDIA_TESLA_T4, where AI Platform Training sold it
    gce_name: str  # nvidia-tesla-t4, where Compute Engine sells it; for a TPU, its machine series
    memory_gb: float | None
    memory_type: str
    bandwidth_gb_s: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    fp16_unit: str  # tensor: matrix units; vector: plain cores; none: no fast fp16
    tdp_w: float | None
    link: str
    link_gb_s: float | None
    mig: bool
    mig_max_slices: float | None
    cores: float | None  # CUDA cores, or AMD's stream processors
    market: str  # consumer, workstation, data-centre: whom its vendor sells it to
    ecc: str  # yes, no: whether its memory corrects errors; empty: not known
    year: float | None
    checked: str  # yes, part, no: how far the figures were read again in a listed source
    note: str


@cache
def gpus() -> Mapping[str, Gpu]:
    """Every known chip by its id (`t4`), the variant a cloud attaches before its siblings."""
    return MappingProxyType({row["gpu_id"]: _gpu(row) for row in rows("gpus.csv")})


def _gpu(row: dict[str, str]) -> Gpu:
    return Gpu(
        gpu_id=row["gpu_id"],
        name=row["name"],
        vendor=row["vendor"],
        form=row["form"],
        architecture=row["architecture"],
        compute_capability=row["compute_capability"],
        aip_type=row["aip_type"],
        gce_name=row["gce_name"],
        memory_gb=figure(row["memory_gb"]),
        memory_type=row["memory_type"],
        bandwidth_gb_s=figure(row["bandwidth_gb_s"]),
        fp32_tflops=figure(row["fp32_tflops"]),
        tf32_tflops=figure(row["tf32_tflops"]),
        fp16_tflops=figure(row["fp16_tflops"]),
        bf16_tflops=figure(row["bf16_tflops"]),
        fp8_tflops=figure(row["fp8_tflops"]),
        fp16_unit=row["fp16_unit"],
        tdp_w=figure(row["tdp_w"]),
        link=row["link"],
        link_gb_s=figure(row["link_gb_s"]),
        mig=row["mig"] == "yes",
        mig_max_slices=figure(row["mig_max_slices"]),
        cores=figure(row["cores"]),
        market=row["market"],
        ecc=row["ecc"],
        year=figure(row["year"]),
        checked=row["checked"],
        note=row["note"],
    )
