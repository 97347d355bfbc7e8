"""Who may come in: everything is refused that does not show the right token, on every path and method, by default.

Users show a token of theirs, or the home's own, which is an admin's; what it opens stands in api/access.py. Replicas show
their attempt's, which opens that attempt's routes and nothing else. Host and Origin are checked so that a page in the user's
browser cannot reach the server through a name that it controls (DNS rebinding).
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from stoker.clock import Clock
from stoker.core.errors import Forbidden, StokerError, Unauthenticated, Unavailable
from stoker.runtime.folder import write_whole
from stoker.store.tokens import TokenBook, digest

from .access import Access, check_path
from .audit import Audit
from .errors import error_response
from .rate_limits import Requests, UnderWay, WrongTokens

REPLICA_PREFIX = "/stoker/replica/v1/"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
NOBODY_KNOWN = "anybody"
"""Whom jobs belong to whose owner is not known."""

_SECRET_FIX = "bring it back from a backup; or remove it: another is made then, and who shows the old one is not let in"

SHORTEST_TOKEN = 16
"""A shorter one is none: an empty file would let everybody in."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What tokens are measured by: hashes of the home's own and of users', and the key from which those of attempts follow."""

    path: Path  # where the home's own lies, for the command line of this user; the server keeps its hash
    sha256: str = field(repr=False)
    replica_key: bytes = field(repr=False)
    book: TokenBook

    @property
    def token(self) -> str:
        """The home's own token, read from its file."""
        return self.path.read_text().strip()

    def is_home(self, shown: str) -> bool:
        """Whether this is the home's own token. Takes the same time for every wrong one."""
        return bool(shown) and hmac.compare_digest(digest(shown), self.sha256)

    def of_attempt(self, attempt: str) -> str:
        """The token of an attempt's replicas: derived, and so in no need of keeping."""
        return hmac.new(self.replica_key, f"attempt {attempt}".encode(), hashlib.sha256).hexdigest()

    def is_attempt(self, attempt: str, shown: str) -> bool:
        """Whether this is the token of that attempt."""
        return hmac.compare_digest(shown.encode(), self.of_attempt(attempt).encode())


def read_or_make_tokens(home: Path, clock: Clock, writes: Callable[[], bool] = lambda: True) -> Tokens:
    """The tokens of a home; made at the first start, readable by its user alone. One that a crash left empty is made anew.
    Raises Unavailable for one that is damaged: programs and people know the old one.

    `writes`: whether this server may write the tokens of users now.
    """
    path, key_path = home / "token", home / "replica.key"
    token, key = _read_secret(path), _read_secret(key_path)
    if not key:
        # Replicas that an older server has started know tokens that follow from the home's own.
        key = token or secrets.token_urlsafe(32)
        write_whole(str(key_path), key + "\n")
    if not token:
        token = secrets.token_urlsafe(32)
        write_whole(str(path), token + "\n")
    book = TokenBook(home / "tokens.json", clock, writes=writes, reserved={user_name(), NOBODY_KNOWN})
    return Tokens(path, digest(token), key.encode(), book)


def _read_secret(path: Path) -> str:
    """A secret of this home; empty if there is none, or only the beginning of one. Raises Unavailable for what is not text."""
    try:
        path.chmod(0o600)
        text = path.read_bytes().decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        text = "\0"
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}", fix=_SECRET_FIX) from None
    if text and not text.isprintable():
        raise Unavailable(f"{path} is damaged: it holds no token", fix=_SECRET_FIX)
    return text if len(text) >= SHORTEST_TOKEN else ""


@dataclass(slots=True)
class Guard:
    """Middleware around the whole application: nothing behind it is reached without passing."""

    app: ASGIApp
    tokens: Tokens
    allowed_hosts: frozenset[str]  # with their ports
    audit: Audit
    needs_token: bool = True
    requests: Requests = field(default_factory=lambda: Requests(0))
    under_way: UnderWay = field(default_factory=lambda: UnderWay(0))
    wrong_tokens: WrongTokens = field(default_factory=WrongTokens)
    user: str = field(default_factory=lambda: user_name())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with who asks in the scope."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            access = self._who(scope, headers)
        except StokerError as error:
            await _refuse(error, scope, receive, send)
            return
        noted = self._noted(scope, access, send)
        with ExitStack() as counted:
            try:
                if not access.is_admin:
                    self.requests.note(access.user)
                    counted.enter_context(self.under_way.one(access.user, _address(scope)))
                check_path(access, scope.get("method", "GET"), scope["path"])
            except StokerError as error:
                await _refuse(error, scope, receive, noted)
                return
            scope.setdefault("state", {})["access"] = access
            await self.app(scope, receive, noted)

    def _check_host(self, headers: Headers) -> None:
        if _only(headers, "host").lower() not in self.allowed_hosts:
            raise WrongHost("this server does not answer to that name", fix="use the address that stoker status shows")
        origin = headers.get("origin")
        if origin is not None and not all(
            _is_origin_of(text, self.allowed_hosts) for text in headers.getlist("origin")
        ):
            raise Forbidden("requests from other sites' pages are refused")
        if any(site not in ("none", "same-origin") for site in headers.getlist("sec-fetch-site")):
            raise Forbidden("requests from other sites' pages are refused")

    def _who(self, scope: Scope, headers: Headers) -> Access:
        """Who asks. Raises Unauthenticated, or TooMany where many wrong tokens have come from."""
        path, shown = scope["path"], _shown(headers)
        if is_of_replica(path):
            attempt = "/".join(path.removeprefix(REPLICA_PREFIX).split("/")[:2])
            if self.tokens.is_attempt(attempt, shown):
                return Access(user=f"attempt {attempt}", is_admin=True)  # of its own routes: the token opens no others
            raise self._wrong(scope, shown, "this is not the token of that attempt")
        if not self.needs_token or self.tokens.is_home(shown):
            return Access(user=self.user, is_admin=True)
        token = self.tokens.book.find(shown)
        if token is None:
            missing = "no token was shown" if not shown else "that is not this server's token, or it has expired"
            fix = "send the text of the file `token` in STOKER_HOME, or a token of yours, as `Authorization: Bearer …`"
            raise self._wrong(scope, shown, missing, fix)
        return Access(
            user=token.name,
            is_admin=token.is_admin,
            is_for_metrics=token.is_for_metrics,
            projects=frozenset(token.projects),
            buckets=frozenset(token.buckets),
        )

    def _wrong(self, scope: Scope, shown: str, message: str, fix: str = "") -> Unauthenticated:
        if shown:
            self.wrong_tokens.note(_address(scope))  # or it is one too many: what is repeated for ever fills no log
            self._note(self.audit.refused(), scope, "", 401)
        return Unauthenticated(message, fix=fix)

    def _noted(self, scope: Scope, access: Access, send: Send) -> Send:
        """Write down what may change something, when it is answered."""
        if scope.get("method", "GET") in ("GET", "HEAD", "OPTIONS") or is_of_replica(scope["path"]):
            return send

        async def noted(event: Event) -> None:
            if event["type"] == "http.response.start":
                self._note(self.audit, scope, access.user, event["status"])
            await send(event)

        return noted

    @staticmethod
    def _note(audit: Audit, scope: Scope, user: str, status: int) -> None:
        method = scope.get("method", "GET")
        audit.note(user=user, address=_address(scope), method=method, path=scope["path"], status=status)


def is_of_replica(path: str) -> bool:
    """Whether a path is one of those that replicas use."""
    return path.startswith(REPLICA_PREFIX)


def _only(headers: Headers, name: str) -> str:
    """A header that may stand there once. Two of them, and a proxy and we might each believe another one."""
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else ""


def _shown(headers: Headers) -> str:
    """The token that was shown; empty for none."""
    kind, _, shown = _only(headers, "authorization").partition(" ")
    return shown.strip() if kind.lower() == "bearer" else ""


def _is_origin_of(origin: str, hosts: frozenset[str]) -> bool:
    scheme, _, host = origin.lower().partition("://")
    return scheme in ("http", "https") and host in hosts


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


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
