"""One HTTP POST to a place that somebody else has named: to a checked address, in limited time, without following redirects."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from stoker.core.errors import BadSpec, Violation

from .addresses import refusal
from .channel import Means, NotDelivered, one_line

LONGEST_URL = 2000
_MOST_BYTES = 400  # of an answer


def check_url(url: str, means: Means) -> None:
    """Raise BadSpec for what is no URL of a place that may be delivered to."""
    try:
        parts = _parts(url)
        found = means.resolve(str(parts.hostname), _port(parts))
        problem = refusal(str(parts.hostname), found, means.networks)
    except ValueError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{one_line(str(urlsplit(url).hostname), 80)} has no address: {error.strerror or error}"
    if problem:
        raise BadSpec([Violation("target", problem)])


def shown_url(url: str) -> str:
    """A URL without its path, which may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…" if parts.path.strip("/") or parts.query else url


def post(url: str, body: bytes, headers: Mapping[str, str], means: Means, context: ssl.SSLContext | None = None) -> str:
    """Send it; returns the status and the beginning of what was answered. Raises NotDelivered for anything but success.

    `context`: whom to trust; None: whom the system trusts.
    """
    try:
        parts = _parts(url)
        addresses = _addresses(parts, means)
    except ValueError as error:
        raise NotDelivered(str(error)) from None
    connection = _To(parts, addresses, means.seconds, context)
    watch = threading.Timer(means.seconds, connection.break_off)
    watch.daemon = True
    watch.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body=body, headers={**headers, "Connection": "close"})
        answer = connection.getresponse()
        said = one_line(answer.read(_MOST_BYTES).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException, ValueError) as error:
        if connection.is_broken_off:
            raise NotDelivered(f"no whole answer within {means.seconds:g} s") from None
        raise NotDelivered(_words(error)) from None
    finally:
        watch.cancel()
        connection.close()
    status = f"{answer.status} {one_line(answer.reason, 60)}".strip()
    if 300 <= answer.status < 400:
        raise NotDelivered(f"{status}: redirects are not followed; give the URL where they end")
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"{status}: {said}" if said else status)
    return f"{status}: {said}" if said else status


class _To(http.client.HTTPConnection):
    """A connection to the first of some addresses that answers, whatever the name leads to by now."""

    def __init__(
        self, parts: SplitResult, addresses: Sequence[str], seconds: float, context: ssl.SSLContext | None
    ) -> None:
        super().__init__(str(parts.hostname), _port(parts), timeout=seconds)
        self._addresses = addresses
        self._until = time.monotonic() + seconds
        self._is_secure = parts.scheme == "https"
        self._context = context
        self.is_broken_off = False
        if parts.port is None:
            self.default_port = self.port  # it is not repeated in the Host header

    def connect(self) -> None:
        """Connect to an address; with TLS it has to be the name's."""
        plain = self._connected()
        self.sock = plain
        if self._is_secure:
            context = self._context or ssl.create_default_context()
            self.sock = context.wrap_socket(plain, server_hostname=self.host)
        if self.is_broken_off:
            raise TimeoutError

    def _connected(self) -> socket.socket:
        """The first that can be had. Raises OSError, that of the last one."""
        *others, last = self._addresses
        for address in others:
            with suppress(OSError):
                return self._connect_to(address)
        return self._connect_to(last)

    def _connect_to(self, address: str) -> socket.socket:
        return socket.create_connection((address, self.port), max(0.1, self._until - time.monotonic()))

    def break_off(self) -> None:
        """End it, whatever it is waiting for."""
        self.is_broken_off = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _parts(url: str) -> SplitResult:
    """A URL in its parts. Raises ValueError with what is wrong with it, which does not repeat it: it may hold a secret."""
    if len(url) > LONGEST_URL:
        raise ValueError(f"a URL may have {LONGEST_URL} characters")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("a URL has no spaces and no characters beyond ASCII: encode them (%20)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("that is no URL: https://host/path is needed, a port from 1 to 65535") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{parts.scheme[:20] or 'nothing'!r} is no scheme for it: https://… or http://… is needed")
    if not parts.hostname or port == 0:
        raise ValueError("the URL names no host: https://host/path is needed")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL may hold no user or password: give the receiver a secret path, and check the signature")
    if parts.fragment:
        raise ValueError("what follows a # is never sent: leave it out")
    return parts


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _addresses(parts: SplitResult, means: Means) -> Sequence[str]:
    """The addresses to connect to, which may all be delivered to now. Raises NotDelivered."""
    host = str(parts.hostname)
    try:
        found = means.resolve(host, _port(parts))
    except OSError as error:
        raise NotDelivered(f"{host} has no address: {error.strerror or error}") from None
    if problem := refusal(host, found, means.networks):
        raise NotDelivered(problem)
    return found


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return one_line(error.strerror or str(error) or type(error).__name__)
    return one_line(f"what it answers is not HTTP ({type(error).__name__})")
