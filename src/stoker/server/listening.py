"""Where the server listens, and where it may not without a token."""

from __future__ import annotations

import socket

from stoker.api.auth import LOOPBACK_NAMES
from stoker.config import Config
from stoker.core.errors import Unavailable


def listen(config: Config) -> socket.socket:
    """A listening socket. A port that nobody chose may give way to a free one; a chosen one that is busy is an error."""
    host, port = config["host"], config["port"]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [port] if config.values["port"].source != "default" else [port, 0]
    for candidate in ports:
        # The protocol is named so that asyncio sees TCP and sends answers at once (TCP_NODELAY), not 40 ms later.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(2048)
            return listening
        except OSError as error:
            listening.close()
            problem = error
    raise Unavailable(
        f"cannot listen on {host}:{port}: {problem.strerror or problem}",
        fix="another program may use that port: choose another with --port, or 0 for any",
    )


def check_exposure(config: Config) -> None:
    """Without a token nobody but this machine may reach the server. Raises Unavailable."""
    is_loopback = config["host"] in (*LOOPBACK_NAMES, "::1") or config["host"].startswith("127.")
    if not config["auth"] and not is_loopback:
        raise Unavailable(
            f"refusing to listen on {config['host']} without a token: anybody there could run code here",
            fix="leave --no-auth out, or listen on 127.0.0.1",
        )
