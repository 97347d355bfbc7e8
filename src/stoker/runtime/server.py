"""The way to Stoker's server, for one replica: join the rendezvous, ship lines, report. Retries for as long as it makes sense."""

from __future__ import annotations

import json
import socket
import time
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, Iterable, Optional

if TYPE_CHECKING:
    import http.client

LONGEST_PAUSE_SECONDS = 5.0
_EMPTY_PAUSE_SECONDS = 1.0
_BLOCK_BYTES = 1 << 18
_KEPT_SECONDS = 600.0  # until a large file is on the server's disk


class Refused(Exception):
    """The server knows this attempt no more, or never did: it has ended, or another one took its place."""


class Unacceptable(Exception):
    """The server understood the request and does not want it; the same again would be refused again."""


class Unreachable(Exception):
    """The server did not answer, or whoever answered at its address is not it."""


class Hindered(Unreachable):
    """The server has answered, and cannot do it now: a disk that is full, or that it may not write to."""


class Server:
    """A connection to the server, kept open. For one thread."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self._server_file: str = request["server_file"]
        self._token = request["token"]
        self._path = f"/stoker/replica/v1/{request['attempt']}/{request['role']}-{request['index']}"
        self._connection: Optional[http.client.HTTPConnection] = None

    def join(self, addresses: "list[str]", give_up: Callable[[], bool]) -> Dict[str, Any]:
        """Say where we are, and wait until everybody has. Raises Refused; returns early, with {}, if told to give up."""
        pause = 0.05
        while not give_up():
            try:
                answer = self.post("join", json.dumps({"addresses": addresses}).encode(), timeout=60.0)
                if answer.get("cluster"):
                    cluster: Dict[str, Any] = answer["cluster"]
                    return cluster
                time.sleep(pause)  # told at once that nobody meets any more, or after a while that somebody is missing
                pause = min(_EMPTY_PAUSE_SECONDS, pause * 2)
            except Unacceptable as error:
                raise Refused(str(error)) from error
            except Unreachable:
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
        return {}

    def post(self, what: str, body: bytes, timeout: float = 15.0) -> Dict[str, Any]:
        """One request, with JSON. Raises Refused, Unacceptable or Unreachable."""
        status, data = self._exchange("POST", f"{self._path}/{what}", body, timeout)
        return self._answered(status, data)

    def _refusal(self, status: int, data: bytes) -> Exception:
        """What a refusal means. Only Stoker itself can say that the attempt is over; a stranger on its port cannot."""
        try:
            name = json.loads(data)["error"]["status"]
        except (ValueError, KeyError, TypeError):
            name = ""
        text = f"{status} {data.decode(errors='replace')[:500]}"
        if name in ("ABORTED", "NOT_FOUND") and status in (404, 409):
            return Refused(text)
        if name in ("INVALID_ARGUMENT", "OUT_OF_RANGE"):
            return Unacceptable(text)
        self._drop()  # and look the address up again
        return (Hindered if name == "UNAVAILABLE" else Unreachable)(text)

    def download(self, what: str, file: IO[bytes], give_up: Callable[[], bool] = lambda: False) -> None:
        """Write what the server has there into a file. Raises as `post`, and OSError of the file's disk.

        Unreachable is raised as well if it was cut off, or we were told to give up.
        """
        from http.client import HTTPException

        try:
            connection = self._open(60.0)
            connection.request("GET", f"{self._path}/{what}", headers=self._headers())
            response = connection.getresponse()
            if response.status >= 400:
                raise self._refusal(response.status, response.read(4000))
            block = response.read(_BLOCK_BYTES)
        except (OSError, HTTPException, ValueError) as error:  # ValueError: the address is none
            self._drop()
            raise Unreachable(str(error)) from error
        while block:
            try:
                if give_up():
                    raise Unreachable("it was stopped")
                file.write(block)
            except (OSError, Unreachable):
                self._drop()  # the rest of it would be taken for the next answer
                raise
            try:
                block = response.read(_BLOCK_BYTES)
            except (OSError, HTTPException) as error:
                self._drop()
                raise Unreachable(str(error)) from error
        if response.length:  # http.client takes the end of a connection for the end of the file
            self._drop()
            raise Unreachable("it was cut off")

    def upload(self, what: str, blocks: Iterable[bytes], size: int) -> Dict[str, Any]:
        """Send so many bytes there, which the server keeps whole or not at all. Raises as `post`.

        What `blocks` raises is raised: then nothing is kept.
        """
        from http.client import HTTPException

        try:
            connection = self._open(60.0)
            connection.putrequest("PUT", f"{self._path}/{what}")
            for name, value in {**self._headers(), "Content-Length": str(size)}.items():
                connection.putheader(name, value)
            connection.endheaders()
        except (OSError, HTTPException, ValueError) as error:
            self._drop()
            raise Unreachable(str(error)) from error
        try:
            for block in blocks:
                try:
                    connection.send(block)
                except OSError:
                    break  # who refuses it may not read it to its end: the answer says why
        except BaseException:
            self._drop()
            raise
        try:
            if connection.sock is not None:
                connection.sock.settimeout(_KEPT_SECONDS)
            response = connection.getresponse()
            status, data = response.status, response.read()
        except (OSError, HTTPException) as error:
            self._drop()
            raise Unreachable(str(error)) from error
        return self._answered(status, data)

    def ask(self, method: str, what: str) -> Dict[str, Any]:
        """One request without a body. Raises as `post`."""
        return self._answered(*self._exchange(method, f"{self._path}/{what}", b"", 60.0))

    def _answered(self, status: int, data: bytes) -> Dict[str, Any]:
        if status >= 400:
            self._drop()
            raise self._refusal(status, data)
        try:
            answer: Dict[str, Any] = json.loads(data or b"{}")
        except ValueError as error:
            raise Unreachable("no JSON in the answer") from error
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        self._drop()

    def _exchange(self, method: str, path: str, body: bytes, timeout: float) -> "tuple[int, bytes]":
        from http.client import HTTPException

        for fresh in (
            False,
            True,
        ):  # a kept connection may have been closed by the other side: then once more on a new one
            kept = not fresh and self._connection is not None and self._connection.sock is not None
            try:
                connection = self._open(timeout)
                connection.request(method, path, body, self._headers())
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, HTTPException, ValueError) as error:  # ValueError: the address is none
                self._drop()
                if not kept:
                    raise Unreachable(str(error)) from error
        raise Unreachable("no answer")

    def _headers(self) -> Dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}

    def _open(self, timeout: float) -> "http.client.HTTPConnection":
        """The connection. What HTTP needs is imported here, when the program has long been started."""
        from http.client import HTTPConnection, HTTPSConnection

        if self._connection is None:
            scheme, _, where = self._url().partition("://")
            kind = HTTPSConnection if scheme == "https" else HTTPConnection
            self._connection = kind(where, timeout=timeout)
            if scheme == "http":
                self._connection._create_connection = _connect  # type: ignore[attr-defined]
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        return self._connection

    def _url(self) -> str:
        """Where the server is now: asked at every new connection, for the next server may listen elsewhere."""
        with open(self._server_file, encoding="utf-8") as file:
            return file.read().strip().rstrip("/")

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(address: "tuple[str, int]", timeout: float, *_: Any) -> socket.socket:
    """As socket.create_connection, but without looking up what is an address already, which costs 10 ms of imports."""
    if not address[0].replace(".", "").isdigit():
        return socket.create_connection(address, timeout)
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection
