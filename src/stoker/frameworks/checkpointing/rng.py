"""What a program draws by chance, as it stands at one moment: Python's, numpy's and PyTorch's.

Keras' layers keep theirs in variables, and JAX its keys in the program's values: these are saved with the model.
"""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from typing import Any, Dict, Iterator


def drawn_so_far() -> Dict[str, Any]:
    """Where chance stands."""
    found: Dict[str, Any] = {"python": random.getstate()}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = numpy.random.get_state()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            found["cuda"] = torch.cuda.get_rng_state_all()
    return found


def draw_from(found: Dict[str, Any]) -> None:
    """Let chance stand there again. What is not there any more, such as a GPU, is passed over."""
    random.setstate(found["python"])
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and "numpy" in found:
        numpy.random.set_state(found["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in found:
        torch.set_rng_state(found["torch"])
        if "cuda" in found and torch.cuda.device_count() == len(found["cuda"]):
            torch.cuda.set_rng_state_all(found["cuda"])


def draw_alike(seed: int) -> None:
    """Let the chance of the processor, which shuffles data, begin with a seed. That of GPUs goes on."""
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)


@contextmanager
def drawing_alike(seed: int) -> Iterator[None]:
    """Within it chance begins with a seed; afterwards it goes on where it was."""
    before = drawn_so_far()
    draw_alike(seed)
    try:
        yield
    finally:
        draw_from(before)
