"""Clients as cheap as they can be, so that the server is measured and not they: raw sockets, one thread each, kept open.

`python -m benchmarks.load PORT PATH TOKEN PREFIX COUNT CLIENTS SECONDS` posts COUNT jobs, or as many as go into SECONDS, and
prints what was accepted, as JSON. It ends early when the server goes away.
"""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it."""

    seconds: float
    accepted: list[str]  # the names, in the order of the answers
    latencies: list[float]  # seconds, of each


def start_load(
    port: int, path: str, token: str, prefix: str, *, count: int, clients: int, seconds: float
) -> subprocess.Popen[str]:
    """Start the clients, in a process of their own: our interpreter is not theirs to wait for."""
    words = [str(port), path, token, prefix, str(count), str(clients), str(seconds)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.load", *words], stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> Load:
    """Wait for its end. Raises RuntimeError."""
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError("the load ended with an error, see above")
    return Load(**json.loads(output))


def main(words: list[str]) -> None:
    """Post, and print the result."""
    port, path, token, prefix = int(words[0]), *words[1:4]
    count, clients, most_seconds = int(words[4]), int(words[5]), float(words[6])
    begin = time.perf_counter()
    numbers = itertools.takewhile(lambda _: time.perf_counter() - begin < most_seconds, range(count))
    found: list[tuple[str, float]] = []
    refused: list[str] = []
    threads = [
        threading.Thread(target=_post_all, args=(port, path, token, prefix, numbers, found, refused))
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if refused:
        sys.exit(refused[0])
    print(json.dumps({"seconds": seconds, "accepted": [n for n, _ in found], "latencies": [t for _, t in found]}))


def _post_all(
    port: int,
    path: str,
    token: str,
    prefix: str,
    numbers: Iterator[int],
    found: list[tuple[str, float]],
    refused: list[str],
) -> None:
    try:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in numbers:
                name = f"{prefix}_{number}"
                request = _request(port, path, token, name)
                begin = time.perf_counter()
                connection.sendall(request)
                head, body = _read_answer(connection)
                if head.split(b" ", 2)[1] != b"200":
                    refused.append(f"{name} was refused: {body.decode(errors='replace')}")
                    return
                found.append((name, time.perf_counter() - begin))
    except (ConnectionError, EOFError):
        return  # it was killed


def _request(port: int, path: str, token: str, name: str) -> bytes:
    body = json.dumps({"name": name, "command": ["true"]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _read_answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Read one answer whole. Returns its head and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += _receive(connection)
    return head, body


def _receive(connection: socket.socket) -> bytes:
    block = connection.recv(65536)
    if not block:
        raise EOFError
    return block


if __name__ == "__main__":
    main(sys.argv[1:])
