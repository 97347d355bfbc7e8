"""A site of six scripted GPUs and a job of two, for tests of verbs that show samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docs.scripted_site import ScriptedSite
from tests.homes import a_home


@contextmanager
def a_gpu_site(home: Path, *, seconds: int = 60) -> Iterator[ScriptedSite]:
    """It was sampled for so long."""
    site = ScriptedSite(a_home(home), jobs=[("train", "H100", 2), ("waits", "H100", 4)])
    try:
        site.run("train", steps_per_second=4.0, data_wait=0.1)
        site.sample(seconds)
        yield site
    finally:
        site.close()
