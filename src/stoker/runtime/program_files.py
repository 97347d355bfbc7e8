"""Brings the program's files here: fetches them, unpacks the source, installs the packages."""

from __future__ import annotations

from typing import Any, Callable, Dict

from .archive import unpack_source
from .environment import Installer
from .errors import CannotStart
from .fetch import fetch
from .sandbox import Sandbox
from .server import Refused, Server


def place_files(
    request: Dict[str, Any], work: str, give_up: Callable[[], bool], say: Callable[[str], None], sandbox: Sandbox
) -> str:
    """Put everything in its place. Returns the folder of the packages, for PYTHONPATH. Raises CannotStart."""
    server = Server(request)
    try:
        packages = [fetch(server, request["cache"], file, give_up) for file in request["packages"]]
        source = [fetch(server, request["cache"], file, give_up) for file in request["source"]]
    except Refused as error:
        raise CannotStart(f"a file of the program cannot be fetched: {error}") from error
    finally:
        server.close()
    for archive in source:
        unpack_source(archive, work)
    return Installer(request["python"], request["uv"], say, give_up, sandbox).prepare(packages, request["cache"])
