"""A large file through the server, in and out, beside a plain copy of the same file; and what that does to the server's memory.

The client is the barest there is, so that it is the server which is measured. Whoever receives syncs: the server what is
uploaded, the client what it downloads, the copy itself.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from .measure import Row, ratio
from .server import Server

RUNS = 5
_BYTES = 1 << 30
_BLOCK_BYTES = 1 << 20
_CHUNK_BYTES = 64 << 20
_UPLOAD = "/upload/storage/v1/b/bench-bucket/o?name=file&uploadType="
_MEDIA = "/download/storage/v1/b/bench-bucket/o/file?alt=media"


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder, Server("--hold") as server:
        source, target = Path(folder) / "source", Path(folder) / "target"
        block = os.urandom(_BLOCK_BYTES)
        with open(source, "wb") as file:
            for _ in range(_BYTES // _BLOCK_BYTES):
                file.write(block)
        client = _Client(server)
        ways: dict[str, Callable[[], None]] = {
            "a plain copy": lambda: _copy(source, target),
            "uploaded in one request": lambda: client.upload(source),
            f"uploaded in chunks of {_CHUNK_BYTES >> 20} MiB": lambda: client.upload_in_chunks(source),
            "downloaded": lambda: client.download(target),
        }
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for way in ways.values():
            way()  # once unmeasured: what is loaded at the first use is loaded, and the page cache is as it will be
        peak = _peak_bytes(server.found.pid)
        for _ in range(runs):
            for name, way in ways.items():
                rates[name].append(_BYTES / 1e6 / _seconds(way))
        growth = (_peak_bytes(server.found.pid) - peak) / 1e6
    peer, *ours = ways
    yield Row(what=f"1 GiB, {peer}, synced", unit="MB/s", samples=rates[peer])
    for name in ours:
        yield Row(
            what=f"1 GiB, {name}", unit="MB/s", samples=rates[name], ratio=ratio(rates[name], rates[peer]), peer=peer
        )
    what = f"growth of the server's peak RSS, {runs} times each way"
    yield Row(what=what, unit="MB", samples=[growth], budget=16, moonshot=4)


def _seconds(way: Callable[[], None]) -> float:
    os.sync()  # what others have left to be written is not this one's
    begin = time.perf_counter()
    way()
    return time.perf_counter() - begin


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    with open(target, "rb") as file:
        os.fsync(file.fileno())


def _peak_bytes(pid: int) -> int:
    """The most that a process has ever had in memory; 0 where only Linux would tell."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


class _Client:
    """One request after the other. What it sends, the kernel takes from the file."""

    def __init__(self, server: Server) -> None:
        self._address = urlsplit(server.found.url).netloc
        self._headers = {"Authorization": f"Bearer {server.found.token}"}

    def upload(self, source: Path) -> None:
        """In one request."""
        self._send("POST", f"{_UPLOAD}media", source, range(_BYTES), {}, 200)

    def upload_in_chunks(self, source: Path) -> None:
        """In as many as it takes."""
        begun = self._send("POST", f"{_UPLOAD}resumable", source, range(0), {}, 200)
        address = urlsplit(begun.headers["Location"])
        for first in range(0, _BYTES, _CHUNK_BYTES):
            end = min(first + _CHUNK_BYTES, _BYTES)
            said = {"Content-Range": f"bytes {first}-{end - 1}/{_BYTES}"}
            status = 200 if end == _BYTES else 308
            self._send("PUT", f"{address.path}?{address.query}", source, range(first, end), said, status)

    def download(self, target: Path) -> None:
        """In one request, to a file."""
        target.unlink(missing_ok=True)
        connection = http.client.HTTPConnection(self._address)
        connection.request("GET", _MEDIA, headers=self._headers)
        buffer, size = memoryview(bytearray(_BLOCK_BYTES)), 0
        with connection.getresponse() as answer, open(target, "wb") as file:
            while received := answer.readinto(buffer):
                file.write(buffer[:received])
                size += received
            file.flush()
            os.fsync(file.fileno())
        connection.close()
        assert size == _BYTES

    def _send(
        self, method: str, path: str, source: Path, part: range, headers: dict[str, str], status: int
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._address)
        connection.putrequest(method, path)
        for name, text in {**self._headers, **headers, "Content-Length": str(len(part))}.items():
            connection.putheader(name, text)
        connection.endheaders()
        with open(source, "rb") as file:
            connection.sock.sendfile(file, part.start, len(part)) if part else 0
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        assert answer.status == status, f"{answer.status}: {said.decode()}"
        return answer
