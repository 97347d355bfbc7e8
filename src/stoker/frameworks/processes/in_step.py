"""Whether this process trains in step with others. Then it cannot be started again alone: they would wait for it for ever."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Tuple

from stoker.beat_files import IN_STEP, folder_of

from .agreement import torch_group


def tell_in_step() -> bool:
    """Look what has met others by now, and leave the mark if something has. Returns whether that is done. Never fails."""
    folder = folder_of(os.environ)
    for has_met in _WAYS if folder else ():
        try:
            if has_met():
                with open(os.path.join(folder, IN_STEP), "wb"):
                    return True
        except Exception:  # a version that we do not know, or a full disk: it is treated as one that is alone
            continue
    return False


def _torch() -> bool:
    return torch_group() is not None


def _jax() -> bool:
    met: Any = sys.modules.get("jax._src.distributed")
    return met is not None and (met.global_state.num_processes or 1) > 1


def _tensorflow() -> bool:
    """What MultiWorkerMirroredStrategy has set up, of Keras 3, of tf_keras, or of a loop of the program's own."""
    eager: Any = sys.modules.get("tensorflow.python.eager.context")
    return eager is not None and bool(eager.context()._collective_leader)


_WAYS: Tuple[Callable[[], bool], ...] = (_torch, _jax, _tensorflow)
