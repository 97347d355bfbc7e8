"""`GET /metrics`. Who scrapes too often gets the answer of a moment ago."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response

from stoker.api.services import Services, services
from stoker.insight.holders import holders_of

from . import gpus, site

router = APIRouter()

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_SECONDS = 1.0


@router.get("/metrics")
def get_metrics(request: Request) -> Response:
    """What there is to be seen, in Prometheus' text format."""
    return Response(_pages(request).text(services(request)), media_type=CONTENT_TYPE)


class _Page:
    """The last answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = b""
        self._made_at = float("-inf")

    def text(self, found: Services) -> bytes:
        """What is shown now. However many ask, it is made once in a second."""
        with self._lock:
            if time.monotonic() - self._made_at >= FRESH_SECONDS:
                self._text, self._made_at = page(found), time.monotonic()
            return self._text


def page(found: Services) -> bytes:
    """The text as it is now."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Site(found))
    holders, hpc_job = found.live.made(holders_of), found.config["metrics_hpc_job"]
    return "".join(gpus.lines_of(found.monitor.gpus(), holders, hpc_job=hpc_job)).encode() + generate_latest(registry)


class _Site(Collector):
    def __init__(self, found: Services) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """Every family of the site."""
        yield from site.families_of(self._found)


def _pages(request: Request) -> _Page:
    found: _Page | None = getattr(request.app.state, "metrics_page", None)
    if found is None:
        found = request.app.state.metrics_page = _Page()
    return found
