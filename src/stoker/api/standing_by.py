"""What a server that stands by does with requests: it answers what only reads, and says who leads to all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.api.pools import in_thread
from stoker.core.errors import StokerError

from .errors import error_response

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_ALSO = ("/v2/entries:list", "/stoker/v1/shutdown")  # reads a log; ends this server, whoever leads


@dataclass(slots=True)
class StandingBy:
    """Middleware behind the guard."""

    app: ASGIApp
    leads: Callable[[], bool]
    refusal: Callable[[], StokerError]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may be answered here."""
        is_read = scope["type"] != "http" or scope["method"] in _READS or scope["path"] in _ALSO
        if is_read or self.leads():
            await self.app(scope, receive, send)
        else:
            try:
                refusal = await in_thread(self.refusal)
            except StokerError as error:  # who leads stands in the database, which may be what is gone
                refusal = error
            await error_response(refusal)(scope, receive, send)
