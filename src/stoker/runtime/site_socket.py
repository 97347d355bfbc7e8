"""The way of a program's own process to a folder of the site: a socket in its beat folder, on which this supervisor answers.

A line of JSON, {"do", "number", "path"}, and its answer, {"answer"} or {"error", "is_missing"}. Bytes go by a descriptor that the
program sends along: what it cannot open itself, nobody opens for it.
"""

from __future__ import annotations

import array
import json
import os
import socket
import threading
from typing import Any, Dict, Optional

from .folder import short_path
from .server import Refused, Server, Unacceptable, Unreachable
from .site_folder import BadName, Changed, SiteFolder, error_message

_LONGEST_LINE = 65_536
_MOST_AT_ONCE = 32


class SiteSocket:
    """Answers one replica's processes."""

    def __init__(self, beat_folder: str, request: Dict[str, Any], user: Optional[int]) -> None:
        self.path = os.path.join(beat_folder, "site")
        self._request, self._user = request, user
        self._numbers = {one["number"] for one in request["mirrors"]}
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._listening: Optional[socket.socket] = None

    def start(self) -> None:
        """Answer from now on."""
        self._listening = socket.socket(socket.AF_UNIX)
        if os.path.lexists(self.path):
            os.unlink(self.path)
        with short_path(self.path) as path:
            self._listening.bind(path)
        if self._user is not None:
            os.chown(self.path, self._user, self._user)
        self._listening.listen(_MOST_AT_ONCE)
        threading.Thread(target=self._accept, args=(self._listening,), name="site-socket", daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        if self._listening is not None:
            self._listening.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._places.acquire()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        server = Server(self._request)
        try:
            while True:
                data, descriptor = _received(connection)
                if not data:
                    return
                try:
                    answer = self._answer(server, json.loads(data), descriptor)
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    answer = {"error": f"not a request: {error}"}
                finally:
                    if descriptor is not None:
                        os.close(descriptor)
                connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # it has gone
        finally:
            connection.close()
            server.close()
            self._places.release()

    def _answer(self, server: Server, asked: Dict[str, Any], descriptor: Optional[int]) -> Dict[str, Any]:
        if asked["number"] not in self._numbers:
            return {"error": f"no folder {asked['number']}"}
        folder, path = SiteFolder(server, int(asked["number"])), str(asked["path"])
        try:
            if asked["do"] == "files":
                return {"answer": folder.files(path)}
            if asked["do"] == "remove":
                folder.remove(path)
            elif asked["do"] in ("send", "bring"):
                if descriptor is None:
                    return {"error": "no descriptor came with it"}
                with os.fdopen(os.dup(descriptor), "rb" if asked["do"] == "send" else "wb") as file:
                    if asked["do"] == "send":
                        file.seek(0)  # wherever its writer is
                        folder.send(path, file)
                    else:
                        folder.bring(path, file)
            else:
                return {"error": f"nobody here does {asked['do']}"}
            return {"answer": None}
        except (Refused, Unacceptable, Unreachable, Changed, BadName, OSError) as error:
            return {
                "error": error_message(error),
                "is_missing": asked["do"] == "bring" and isinstance(error, Unacceptable),
            }


def _received(connection: socket.socket) -> "tuple[bytes, Optional[int]]":
    """The next line, and the descriptor that came with it; empty at the end."""
    data, descriptor = b"", None
    size = array.array("i").itemsize
    while not data.endswith(b"\n"):
        block, more, _, _ = connection.recvmsg(_LONGEST_LINE, socket.CMSG_LEN(size))
        for level, kind, content in more:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i", content[: len(content) - len(content) % size])
                for extra in [descriptor, *found[1:]] if descriptor is not None else found[1:]:
                    if extra is not None:
                        os.close(extra)
                descriptor = found[0]
        if not block or len(data) > _LONGEST_LINE:
            if descriptor is not None:
                os.close(descriptor)
            return b"", None
        data += block
    return data, descriptor
