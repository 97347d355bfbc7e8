"""Who may come in: everything is refused that does not show the right token, on every path and method, by default.

Users show the server's token; replicas show their attempt's, which opens that attempt's routes and nothing else. Host and
Origin are checked so that a page in the user's browser cannot reach the server through a name that it controls (DNS rebinding).
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.core.errors import Forbidden, StokerError, Unauthenticated
from stoker.runtime.folder import write_whole

from .errors import error_response

REPLICA_PREFIX = "/stoker/replica/v1/"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
SHORTEST_TOKEN = 16
"""A shorter one is none: an empty file would let everybody in."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The server's token, and those of attempts, which are derived from it and so need no keeping."""

    token: str

    def is_user(self, shown: str) -> bool:
        """Whether this is the server's token. Takes the same time for every wrong one."""
        return bool(shown) and hmac.compare_digest(shown.encode(), self.token.encode())

    def of_attempt(self, attempt: str) -> str:
        """The token of an attempt's replicas."""
        return hmac.new(self.token.encode(), f"attempt {attempt}".encode(), hashlib.sha256).hexdigest()

    def is_attempt(self, attempt: str, shown: str) -> bool:
        """Whether this is the token of that attempt."""
        return hmac.compare_digest(shown.encode(), self.of_attempt(attempt).encode())


def read_or_make_token(path: Path) -> Tokens:
    """The token of this home; made at the first start, readable by its user alone. One that a crash left empty is made anew."""
    try:
        path.chmod(0o600)
        token = path.read_text().strip()
    except FileNotFoundError:
        token = ""
    if len(token) < SHORTEST_TOKEN:
        token = secrets.token_urlsafe(32)
        write_whole(str(path), token + "\n")
    return Tokens(token)


@dataclass(slots=True)
class Guard:
    """Middleware around the whole application: nothing behind it is reached without passing."""

    app: ASGIApp
    tokens: Tokens
    allowed_hosts: frozenset[str]  # with their ports
    needs_token: bool = True
    user: str = field(default_factory=lambda: user_name())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with the user's name in the scope."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_token(scope["path"], headers)
        except StokerError as error:
            await _refuse(error, scope, receive, send)
            return
        scope.setdefault("state", {})["user"] = self.user
        await self.app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        if headers.get("host", "").lower() not in self.allowed_hosts:
            raise WrongHost("this server does not answer to that name", fix="use the address that stoker status shows")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self.allowed_hosts:
            raise Forbidden("requests from other sites' pages are refused")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Forbidden("requests from other sites' pages are refused")

    def _check_token(self, path: str, headers: Headers) -> None:
        kind, _, shown = headers.get("authorization", "").partition(" ")
        shown = shown.strip() if kind.lower() == "bearer" else ""
        if path.startswith(REPLICA_PREFIX):
            attempt = "/".join(path.removeprefix(REPLICA_PREFIX).split("/")[:2])
            if not self.tokens.is_attempt(attempt, shown):
                raise Unauthenticated("this is not the token of that attempt")
        elif self.needs_token and not self.tokens.is_user(shown):
            missing = "no token was shown" if not shown else "that is not this server's token"
            raise Unauthenticated(
                missing, fix="send the text of the file `token` in STOKER_HOME as `Authorization: Bearer …`"
            )


class WrongHost(Forbidden):
    """The Host header names somebody else."""


async def _refuse(error: StokerError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.message})
        return
    response = error_response(error)
    if isinstance(error, WrongHost):
        response.status_code = 421
    await response(scope, receive, send)


def user_name() -> str:
    """Who runs this server; in a container a user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user-{os.getuid()}"


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """The Host headers to accept: the address we listen on, on every address all of this machine's, and loopback's names."""
    names = {_in_url(host), *LOOPBACK_NAMES}
    if host in ("0.0.0.0", "::"):
        names |= {_in_url(name.lower()) for name in own_names()}
    return frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())


def own_names() -> set[str]:
    """The names and addresses of this machine."""
    found = {socket.gethostname()}
    for addresses in psutil.net_if_addrs().values():
        found |= {a.address.partition("%")[0] for a in addresses if a.family in (socket.AF_INET, socket.AF_INET6)}
    return found


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
