"""uvicorn's server, which ends in time whatever still waits for a disk."""

from __future__ import annotations

import os
import socket
import threading

import uvicorn

END_SECONDS = 8.0
"""Nothing is lost by an end: what was accepted is on disk, and replicas run on. So no thread that hangs can put it off."""


class Server(uvicorn.Server):
    """One server, to be run once in a process of its own."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and answer those that are there; the process ends soon after that, or is ended."""
        last = threading.Timer(END_SECONDS, os._exit, (0,))
        last.daemon = True
        last.start()
        await super().shutdown(sockets)
