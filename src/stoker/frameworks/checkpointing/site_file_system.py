"""A folder that lies with the site, as a file system for checkpoints, where the job's directory is only a copy of it.

What is put is there, whole, when the call returns: so a checkpoint counts when the site has it. The supervisor beside the program
carries it (runtime/site_socket.py); files reach it as descriptors. The methods are those of fsspec that remote.py calls.
"""

from __future__ import annotations

import array
import json
import os
import socket
import tempfile
from typing import Any, Dict, List, Mapping, Optional


class SiteSystem:
    """One of the job's folders. Safe to use from any thread. Raises OSError for what cannot be done."""

    def __init__(self, number: int, socket_path: str) -> None:
        self._number, self._socket_path = number, socket_path

    def cat_file(self, path: str) -> bytes:
        """A file's bytes. Raises FileNotFoundError."""
        with tempfile.TemporaryFile() as file:
            self._ask("bring", path, file.fileno())
            file.seek(0)
            return file.read()

    def get_file(self, path: str, to: str) -> None:
        """Bring a file here. Raises FileNotFoundError."""
        with open(to, "wb") as file:
            self._ask("bring", path, file.fileno())

    def put_file(self, path: str, to: str) -> None:
        """Send a file that is here."""
        with open(path, "rb") as file:
            self._ask("send", to, file.fileno())

    def pipe_file(self, path: str, data: bytes) -> None:
        """Send bytes."""
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            self._ask("send", path, file.fileno())

    def ls(self, path: str, detail: bool = False) -> List[str]:
        """The paths of what is in a folder. Raises FileNotFoundError for an empty one: it knows none."""
        depth = len(path.split("/")) + 1 if path else 1
        found = {"/".join(name.split("/")[:depth]) for name in self._ask("files", path)}
        if not found:
            raise FileNotFoundError(path)
        return sorted(found)

    def exists(self, path: str) -> bool:
        """Whether there is such a file, or a folder with something in it."""
        return bool(self._ask("files", path))

    def rm(self, path: str, recursive: bool = False) -> None:
        """Remove a file, or all that is below a folder."""
        self._ask("remove", path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Folders are made with what is in them."""

    def invalidate_cache(self) -> None:
        """There is none."""

    def _ask(self, do: str, path: str, descriptor: Optional[int] = None) -> Any:
        line = json.dumps({"do": do, "number": self._number, "path": path}).encode() + b"\n"
        more = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            with _connected(self._socket_path) as connection:
                connection.sendmsg([line], more)
                answer = self._answer(connection)
        except (OSError, ValueError) as error:
            raise OSError(f"the site cannot be asked for {path}: {error}") from error
        if "error" in answer:
            raise FileNotFoundError(path) if answer.get("is_missing") else OSError(str(answer["error"]))
        return answer["answer"]

    def _answer(self, connection: socket.socket) -> Dict[str, Any]:
        data = b""
        while not data.endswith(b"\n"):
            block = connection.recv(1 << 20)
            if not block:
                raise OSError("its supervisor has gone")
            data += block
        answer: Dict[str, Any] = json.loads(data)
        return answer


def site_system(place: str, variables: Mapping[str, str]) -> "Optional[tuple[SiteSystem, str]]":
    """The file system of a folder that is a copy of one of the site's, and the path in it; None: it is none."""
    for one in filter(None, variables.get("STOKER_SITE_FOLDERS", "").split(os.pathsep)):
        number, _, folder = one.partition("=")
        if place == folder or place.startswith(folder + "/"):
            return SiteSystem(int(number), variables["STOKER_SITE_SOCKET"]), place[len(folder) :].strip("/")
    return None


def _connected(path: str) -> socket.socket:
    """Through its folder, for the path of a socket may have a hundred bytes at most."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        except OSError:
            connection.close()
            raise
        return connection
    finally:
        os.close(folder)
