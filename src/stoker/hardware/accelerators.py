"""The accelerators by their names: as AI Platform writes them, as Compute Engine does, and as drivers and people do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from stoker.hardware.gpus import Gpu, gpus
from stoker.hardware.product_names import ProductName, product_name
from stoker.hardware.table import rows

# Slices of a TPU pod, which the API's enum knows and no machine type of ours carries.
TPU_PODS = {"TPU_V2_POD": "tpu-v2", "TPU_V3_POD": "tpu-v3", "TPU_V4_POD": "tpu-v4"}

# Product names whose figures say something else than our row: GH200 counts the host's memory, and both sizes of
# the V100 PCIe share a row.
QUIRKS = {ProductName("gh200", "480gb", ""): "gh200-96", ProductName("v100", "32gb", "pcie"): "v100-pcie"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """What a replica may be given: a canonical name, the cloud's name ("" where none sells it) and the chip."""

    name: str
    gce_name: str
    chip: Gpu | None  # None: a machine type carries it, but its figures are not in our table

    @property
    def is_tpu(self) -> bool:
        """Whether this is a TPU, which is no GPU of any driver."""
        return self.name.startswith("TPU_")


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every known accelerator by its canonical name (`NVIDIA_TESLA_T4`, `NVIDIA_L4`, `NVIDIA_RTX_3090`, `TPU_V2`)."""
    return MappingProxyType({accelerator.name: accelerator for accelerator in _all()})


def find_accelerator(text: str) -> Accelerator | None:
    """The accelerator meant by a canonical name, a cloud's name, a short name or a driver's product name.

    Case does not matter. A name that fits no known chip is None, never the nearest one: `RTX 3090 Ti` is no RTX 3090,
    and `A100 96GB` none of ours. Where a name leaves a variant open (`A100`), it is the one the cloud attaches.
    """
    exact = _spellings().get(_spelling(text))
    return exact if exact is not None else _by_product_name(product_name(text))


def canonical_name(gce_name: str) -> str:
    """The canonical name of what the cloud calls `gce_name`; "" stays ""."""
    found = _spellings().get(_spelling(gce_name))
    return found.name if found is not None else ""


def device_strings(count: int) -> tuple[str, ...]:
    """TensorFlow's names of a machine's accelerators: `/gpu:0`, `/gpu:1` and so on."""
    return tuple(f"/gpu:{index}" for index in range(count))


def _all() -> Iterator[Accelerator]:
    """The chips of gpus.csv, then what machine types carry beyond them, then the TPU pods."""
    known = set()
    for gpu in gpus().values():
        accelerator = _of_chip(gpu)
        known.add(accelerator.gce_name)
        yield accelerator
    for row in rows("machine_types.csv"):
        gce_name = row["bundled_accelerator"]
        if gce_name and gce_name not in known:
            known.add(gce_name)
            yield Accelerator(name=_upper(gce_name), gce_name=gce_name, chip=None)
    for name, gpu_id in TPU_PODS.items():
        yield Accelerator(name=name, gce_name=f"{gpu_id}-pod", chip=gpus()[gpu_id])


def _of_chip(gpu: Gpu) -> Accelerator:
    if gpu.vendor == "google":  # the table holds the machine series (ct2) there; zones and prices say tpu-v2
        return Accelerator(name=gpu.aip_type or _upper(gpu.gpu_id), gce_name=gpu.gpu_id, chip=gpu)
    if gpu.gce_name:
        return Accelerator(name=gpu.aip_type or _upper(gpu.gce_name), gce_name=gpu.gce_name, chip=gpu)
    return Accelerator(name=_upper(f"{gpu.vendor}-{gpu.gpu_id}"), gce_name="", chip=gpu)


@cache
def _spellings() -> Mapping[str, Accelerator]:
    """Each accelerator under all its exact names."""
    names = {}
    for accelerator in accelerators().values():
        names[_spelling(accelerator.name)] = accelerator
        if accelerator.gce_name:
            names[_spelling(accelerator.gce_name)] = accelerator
        if accelerator.chip is not None and accelerator.name not in TPU_PODS:
            names[_spelling(accelerator.chip.gpu_id)] = accelerator
    return names


def _by_product_name(wanted: ProductName) -> Accelerator | None:
    """The first chip of the wanted family that does not contradict the stated memory and form."""
    if wanted in QUIRKS:
        return _spellings()[QUIRKS[wanted]]
    said = (wanted, wanted._replace(family=f"rtx{wanted.family}"))  # "3090" and "A6000" are said, too
    chips = (chip for name in said for chip in _families().get(name.family, ()) if name.agrees_with(chip[0]))
    return next((accelerator for _, accelerator in chips), None)


@cache
def _families() -> Mapping[str, list[tuple[ProductName, Accelerator]]]:
    families: dict[str, list[tuple[ProductName, Accelerator]]] = {}
    for accelerator in accelerators().values():
        name = _chip_name(accelerator)
        families.setdefault(name.family, []).append((name, accelerator))
    return families


def _chip_name(accelerator: Accelerator) -> ProductName:
    """The product name as our own row states it: family by the id, memory and form by their columns."""
    chip = accelerator.chip
    if chip is None or accelerator.name in TPU_PODS:
        return product_name(accelerator.name)
    memory = f"{chip.memory_gb:g}" if chip.memory_gb is not None else ""
    named = product_name("-".join(word for word in chip.gpu_id.split("-") if word != memory))
    return ProductName(named.family, f"{memory}gb", named.form or product_name(chip.form).form)


def _spelling(text: str) -> str:
    return text.strip().lower().replace("_", "-")


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
