"""How long answers take to those who are let in: counted by dialect, method and class of status, for `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


def new_histogram() -> Histogram:
    """One that counts the answers of one application."""
    return Histogram(
        "stoker_http_answer_seconds",
        "From a request to the first byte of its answer.",
        ["dialect", "method", "status"],
        buckets=_BUCKETS,
        registry=None,
    )


class Timed:
    """The same application, with its answers timed. What is streamed counts up to its beginning."""

    def __init__(self, app: ASGIApp, seconds: Histogram, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._seconds = seconds
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "other"
                labels = (_dialect(scope), method, f"{message['status'] // 100}xx")
                self._seconds.labels(*labels).observe(self._clock() - began)
            await send(message)

        await self._app(scope, receive, timed)


def _dialect(scope: Scope) -> str:
    """Of the route that has answered; `none`: there is none."""
    endpoint = scope.get("endpoint")
    module = getattr(endpoint, "__module__", "")
    _, found, rest = module.partition(".dialects.")
    return str(rest.partition(".")[0]) if found else "none"
