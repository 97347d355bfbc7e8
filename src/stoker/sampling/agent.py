"""The process that samples a machine: `python -m stoker.sampling.agent SECONDS`, a sample a line on its output.

It ends when nobody reads it any more. `nvidia-ml-py` and psutil are all that it loads.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from stoker.gpu.reading import Reader
from stoker.registry import load, names

from .sample import Sample, to_line
from .sampler import Sampler

_NICER = 10
"""It gives way to the server and to programs: a sample a moment later is as good."""


def main(arguments: Sequence[str]) -> int:
    """Sample until nobody listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    os.nice(_NICER)
    sampler = Sampler(readers(), seconds=float(arguments[0]))

    def tell(sample: Sample) -> None:
        sys.stdout.write(to_line(sample) + "\n")
        sys.stdout.flush()

    try:
        sampler.run(tell)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    sys.stdout = None  # it is closed at the other end: Python would complain at its end
    return 0


def readers() -> list[Reader]:
    """The readers of all drivers that find GPUs on this machine."""
    made = (load("drivers", name)().reader() for name in names("drivers") if name != "fake")
    return [reader for reader in made if reader is not None]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
