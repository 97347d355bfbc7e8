"""Asks a server for its state twenty times a second until its input ends, and prints how many milliseconds each answer took.

`python -m tests.attack.watcher URL TOKEN`
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time
from urllib.parse import urlsplit

_EVERY_SECONDS, _PATIENCE_SECONDS = 0.05, 30.0


def main(url: str, token: str) -> None:
    """Until the input ends."""
    where, found = urlsplit(url), []
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_PATIENCE_SECONDS)
    while not select.select([sys.stdin], [], [], _EVERY_SECONDS)[0]:
        began = time.perf_counter()
        try:
            connection.request("GET", "/stoker/v1/status", headers={"Authorization": f"Bearer {token}"})
            connection.getresponse().read()
        except OSError:
            connection.close()  # it has taken as long as it took, and the next question is asked anew
        found.append(1000 * (time.perf_counter() - began))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
