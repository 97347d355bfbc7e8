"""NVIDIA's management library, in-process. Source: nvidia-ml-py, `nvmlDeviceGet*`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stoker.gpu.device import Device

_log = logging.getLogger("stoker.gpu")


class NvmlDriver:
    """Implements Driver. The library is loaded for the question and let go after it."""

    def devices(self) -> Sequence[Device]:
        """The NVIDIA GPUs of this machine. No driver means no GPUs; a GPU that cannot be read is left out, and said so."""
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            if not isinstance(error, pynvml.NVMLError_LibraryNotFound):
                _log.warning("the NVIDIA driver does not answer: %s", error)
            return []
        found: list[Device] = []
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                try:
                    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                    found.append(
                        Device(
                            index=index,
                            uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
                            product=_text(pynvml.nvmlDeviceGetName(handle)),
                            memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                        )
                    )
                except pynvml.NVMLError as error:
                    _log.warning("GPU %d cannot be read and is left out: %s", index, error)
        except pynvml.NVMLError as error:
            _log.warning("the NVIDIA driver does not say how many GPUs there are: %s", error)
        finally:
            pynvml.nvmlShutdown()
        return found


def _text(value: str | bytes) -> str:
    """Older versions of the library answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value
