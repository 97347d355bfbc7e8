"""NVIDIA's management library, in-process. Source: nvidia-ml-py, `nvmlDeviceGet*`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from stoker.gpu.device import Device
from stoker.gpu.nvml_reader import NvmlReader, text
from stoker.gpu.reading import Reader

_log = logging.getLogger("stoker.gpu")


class NvmlDriver:
    """Implements Driver."""

    def devices(self) -> Sequence[Device]:
        """The NVIDIA GPUs of this machine. No driver means no GPUs; a GPU that cannot be read is left out, and said so.

        The library is loaded for the question and let go after it.
        """
        import pynvml

        if not _is_there():
            return []
        try:
            return list(_found())
        finally:
            pynvml.nvmlShutdown()

    def reader(self) -> Reader | None:
        """Hold them open; None where there is no driver, or no GPU."""
        import pynvml

        if not _is_there():
            return None
        found = _found()
        if not found:
            pynvml.nvmlShutdown()
            return None
        return NvmlReader(found)


def _is_there() -> bool:
    """Load the library. Returns whether a driver answers."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if not isinstance(error, pynvml.NVMLError_LibraryNotFound):
            _log.warning("the NVIDIA driver does not answer: %s", error)
        return False
    return True


def _found() -> dict[Device, Any]:
    """The GPUs, with their handles."""
    import pynvml

    found: dict[Device, Any] = {}
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        _log.warning("the NVIDIA driver does not say how many GPUs there are: %s", error)
        return found
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            device = Device(
                index=index,
                uuid=text(pynvml.nvmlDeviceGetUUID(handle)),
                product=text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                pci_bus_id=_bus_of(handle),
            )
        except pynvml.NVMLError as error:
            _log.warning("GPU %d cannot be read and is left out: %s", index, error)
            continue
        found[device] = handle
    return found


def _bus_of(handle: Any) -> str:
    import pynvml

    try:
        return text(pynvml.nvmlDeviceGetPciInfo(handle).busId)
    except pynvml.NVMLError:
        return ""
