"""Brings the program's files here: fetches them, unpacks the source, installs the packages."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple

from .archive import unpack_source
from .environment import Installer
from .errors import CannotStart
from .fetch import fetch
from .sandbox import Sandbox
from .server import Refused, Server


class Placed(NamedTuple):
    """What a program runs with."""

    site: str  # the folder of the packages, for PYTHONPATH; empty: there are none
    folders: List[str]  # of Stoker's own making, that the program is to see
    python: str  # the interpreter


def place_files(
    request: Dict[str, Any], work: str, give_up: Callable[[], bool], say: Callable[[str], None], sandbox: Sandbox
) -> Placed:
    """Put everything in its place. Raises CannotStart."""
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
    python, cache = request["python"], request["cache"]
    installer = Installer(python, request["uv"], say, give_up, sandbox)
    asked = request["python_asked"]
    if os.path.isabs(asked):  # then it is that one
        if not os.path.exists(asked):
            raise CannotStart(
                f"there is no interpreter {asked} on this machine; a version will do, such as --python 3.12"
            )
    elif asked:
        python = installer.make_interpreter(asked, cache)
    site = installer.prepare(packages, cache, request["requirements"])
    return Placed(site, [*installer.base, *([site] if site else [])], python)
