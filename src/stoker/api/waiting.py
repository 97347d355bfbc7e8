"""What is answered on a server's address while it cannot begin: to every question, what it waits for."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stoker.core.errors import NotYet

from .audit import Audit
from .auth import Guard, Tokens
from .errors import error_response
from .protocol import PatientProtocol

_END = "/stoker/v1/shutdown"


@dataclass(slots=True)
class Reason:
    """The application: 503, and why. It can be told to end, and nothing else."""

    end: Callable[[], None]
    why: NotYet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013, "reason": "the server waits"})
            return
        if scope["method"] == "POST" and scope["path"] == _END:
            self.end()
            await Response(json.dumps({"running": []}), media_type="application/json")(scope, receive, send)
            return
        response = error_response(self.why)
        response.headers["Retry-After"] = "5"
        await response(scope, receive, send)


class Waiting:
    """The application on its socket, in a thread of its own, until `close`."""

    def __init__(self, reason: Reason, guard: Guard, listening: socket.socket) -> None:
        self._reason = reason
        self._server = uvicorn.Server(
            uvicorn.Config(
                guard,
                log_level="error",
                access_log=False,
                timeout_graceful_shutdown=1,
                server_header=False,
                http=PatientProtocol,
                loop="asyncio",
                ws="none",
                proxy_headers=False,
                lifespan="off",
            )
        )
        # It closes what it is given. The same socket listens on for the server that comes: nobody is turned away between.
        given = {"sockets": [listening.dup()]}
        self._thread = threading.Thread(target=self._server.run, kwargs=given, name="waiting", daemon=True)
        self._thread.start()

    def tell(self, why: NotYet) -> bool:
        """What is waited for now. Returns whether that is news."""
        said, self._reason.why = self._reason.why, NotYet(f"this server waits: {why.message}", fix=why.fix)
        return said.message != self._reason.why.message

    def close(self) -> None:
        """Answer no more."""
        self._server.should_exit = True
        self._thread.join()


def answer_meanwhile(
    listening: socket.socket,
    tokens: Tokens,
    hosts: frozenset[str],
    *,
    needs_token: bool,
    audit: Audit,
    end: Callable[[], None],
) -> Waiting:
    """Answer there from now on, to those whom the server itself would let in. `end`: called when it is told to end."""
    reason = Reason(end, NotYet("this server waits"))
    return Waiting(reason, Guard(reason, tokens, hosts, audit, needs_token), listening)
