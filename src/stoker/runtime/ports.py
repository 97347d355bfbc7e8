"""Ports that stay ours until we end, on a machine where many replicas look for some.

Chosen below the range from which the kernel takes ports of outgoing connections (32768 up on Linux), and each claimed by a
lock on a file, so that two replicas of any job never choose the same, though neither listens on it yet.
"""

from __future__ import annotations

import fcntl
import os
import socket
from typing import List

FIRST, LAST = 20000, 32000

_claims: List[int] = []  # file descriptors; their locks end with the process


def reserve(count: int, host: str) -> List[int]:
    """So many free ports of this host, claimed for the life of this process. Raises OSError when there are none left."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"stoker-ports-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found: List[int] = []
    start = FIRST + int.from_bytes(os.urandom(4), "big") % (LAST - FIRST)
    for offset in range(LAST - FIRST):
        port = FIRST + (start - FIRST + offset) % (LAST - FIRST)
        if _is_free(port, host) and _claim(os.path.join(folder, str(port))):
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports between {FIRST} and {LAST} on {host}")


def _is_free(port: int, host: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _claim(path: str) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _claims.append(descriptor)
    return True
