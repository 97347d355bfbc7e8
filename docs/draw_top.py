"""The picture of `stoker top` in docs/monitoring.md: its own screen, of a site that is made up."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docs.scripted_site import NOW, URL, ScriptedSite
from stoker.cli.top.app import Top
from stoker.cli.top.recent import POINTS
from stoker.cli.top.source import Look

COLUMNS, LINES = 110, 21
JOBS = (("resnet50", "H100", 2), ("llama_lora", "H100", 1), ("digits", "T4", 1), ("sweep_17", "H100", 4))


def top() -> str:
    """docs/pictures/top.svg."""
    with tempfile.TemporaryDirectory() as folder, _plain_environment():
        site = a_site(Path(folder))
        try:
            overview = site.client.overview(POINTS)
            return asyncio.run(_drawn(Top(overview, lambda _: Look(overview=overview), lambda: URL, clock=lambda: NOW)))
        finally:
            site.close()


def a_site(home: Path) -> ScriptedSite:
    """Six GPUs, three jobs that run, and one that waits."""
    site = ScriptedSite(home, jobs=JOBS)
    site.run("resnet50", steps_per_second=4.5, data_wait=0.02)
    site.run("llama_lora", steps_per_second=0.7, data_wait=0.44)
    site.run("digits", steps_per_second=120.0)
    site.sample()
    return site


async def _drawn(app: Top) -> str:
    async with app.run_test(size=(COLUMNS, LINES)) as pilot:
        await pilot.pause()
        drawn = app.export_screenshot(title="stoker top")
    # The letters of whoever looks at it: nothing is fetched from elsewhere.
    drawn = re.sub(r"@font-face \{.*?\}\n?", "", drawn, flags=re.DOTALL)
    return re.sub(r"font-family: (Fira Code|arial)[^;]*;", "font-family: monospace;", drawn)


@contextmanager
def _plain_environment() -> Iterator[None]:
    """In colour, and in UTC, whoever draws it."""
    kept = dict(os.environ)
    os.environ.pop("NO_COLOR", None)
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
        time.tzset()
