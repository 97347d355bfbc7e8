"""This machine as an engine: every replica is a supervised process group, detached from the server.

A server that restarts finds its replicas again by their folders, `runs/<project>/<job>.<attempt>/<role>-<index>/`; their
supervisors hold locks there and keep status files (see runtime/folder.py). Nothing else ties them to the server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from stoker.core.errors import EngineError, Unavailable
from stoker.core.ids import replica_id, replica_name
from stoker.core.job import Attempt, Replica
from stoker.core.launch import Launch, LaunchReplica
from stoker.core.node import Node
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.runtime.errors import MAY_PASS
from stoker.runtime.folder import Folder, write_whole

from .base import Request, Seen

HOST = "127.0.0.1"
_NEAR_BYTES = 1 << 16
_LEAST_FREE_BYTES = 4 << 20


class LocalEngine:
    """Implements Engine on the machine that the server runs on."""

    def __init__(
        self,
        home: Path,
        *,
        nodes: Sequence[Node],
        runtime: Path,
        server_url: str,
        token: Callable[[str], str],
        uv: str,
    ) -> None:
        """`token`: attempt id → the token its replicas may use. `runtime`: the zipapp."""
        self._runs = home / "runs"
        self._cache = home / "cache"
        self._nodes = tuple(nodes)
        self._runtime = runtime
        self._leaving: list[_Child] = []  # supervisors whose attempts are over; they may still be shipping lines
        self._server_file = home / "cache" / "server-url"
        self._token = token
        self._uv = uv
        self._spawned: dict[str, _Child] = {}  # replica id → supervisors that we started ourselves
        self._server_file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(str(self._server_file), server_url)  # replicas of an earlier server find this one by it
        self._has_real_devices = any(node.devices and not node.virtual for node in nodes)

    def nodes(self) -> Sequence[Node]:
        """This machine, and the nodes declared on it."""
        self._leaving = [child for child in self._leaving if child.lives()]  # asked every round: no zombie stays long
        return self._nodes

    def render(self, launch: Launch) -> Request:
        """The request file of every replica, but for the token and the server's address."""
        files = {
            kind: [{"number": f.number, "name": f.name, "stamp": f.stamp} for f in found]
            for kind, found in (("packages", launch.packages), ("source", launch.source))
        }
        return Request(
            attempt=launch.attempt,
            replicas={
                replica_name(r.role, r.index): {
                    "attempt": launch.attempt,
                    "number": launch.number,
                    "role": r.role,
                    "index": r.index,
                    "is_alone": len(launch.replicas) == 1,
                    "convention": launch.convention,
                    "primary_name": launch.primary_name,
                    "told": launch.told,
                    "cloud_id": launch.attempt,
                    "is_container": r.is_container,
                    "python": r.python,
                    "command": list(r.command),
                    "env": {**r.env, "STOKER_REPLICA_ID": replica_id(launch.attempt, r.role, r.index)},
                    "devices": list(r.devices),
                    "visible_devices": self._visible_devices(r),
                    "grace_seconds": launch.grace_seconds,
                    "in_place": launch.in_place,
                    "host": HOST,
                    "loopback_interface": "lo0" if sys.platform == "darwin" else "lo",
                    **files,
                }
                for r in launch.replicas
            },
        )

    def start(self, request: Request) -> None:
        """Make the folders and start a supervisor in each. One that runs, or has run, is left alone.

        Raises Unavailable for what may pass, so that the order is given again: no room on the disk, too many processes.
        """
        self._check_room()
        for name, words in request.replicas.items():
            folder = self._folder(request.attempt, name)
            if folder.should_stop() or folder.read_status() or folder.supervisor_lives():
                continue
            spawned = self._spawned.get(f"{request.attempt}/{name}")
            if spawned is not None and spawned.lives():
                continue  # on its way to the lock
            try:
                os.makedirs(folder.path, mode=0o700, exist_ok=True)
                whole = {
                    **words,
                    "server_file": str(self._server_file),
                    "token": self._token(request.attempt),
                    "cache": str(self._cache),
                    "uv": self._uv,
                }
                write_whole(folder.request_file, json.dumps(whole))
                command = [sys.executable, "-I", "-S", str(self._runtime), folder.path]
                marked = {**os.environ, "STOKER_REPLICA_ID": f"{request.attempt}/{name}"}
                self._spawned[f"{request.attempt}/{name}"] = _Child(command, marked, folder.errors_file)
            except OSError as error:
                kind = Unavailable if error.errno in MAY_PASS else EngineError
                raise kind(f"{name} cannot be started on this machine: {error}") from error

    def stop(self, attempt: str, *, force: bool) -> None:
        """Raise the fence, then tell the supervisors: TERM, upon which they give their program the grace; or KILL."""
        os.makedirs(self._attempt_folder(attempt), mode=0o700, exist_ok=True)
        fence = self._attempt_folder(attempt) / "stop"
        is_new = not fence.exists()
        fence.touch()
        for folder in self._folders(attempt):
            if not folder.supervisor_lives():
                continue
            if force:
                _kill(_pid(folder), signal.SIGKILL)
                _sweep(replica_id(attempt, *_role_and_index(folder)))
            elif is_new:
                _kill(_pid(folder), signal.SIGTERM)

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What the folders tell."""
        return {
            a.id: [self._seen(a, r) for r in a.replicas if r.seen not in FINAL_REPLICA_STATES]
            for a in attempts.values()
        }

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """The lines on disk."""
        try:
            with open(self._folder(attempt, replica).log_file, "rb") as file:
                file.seek(_place_before(file, after))
                for line in file:
                    record = _record(line)
                    if record is not None and record["n"] > after:
                        yield record
        except FileNotFoundError:
            return

    def forget(self, attempt: str) -> None:
        """The folders stay: they answer for the attempt if it is asked about again, and hold what programs wrote there."""
        for folder in self._folders(attempt):
            child = self._spawned.pop(f"{attempt}/{os.path.basename(folder.path)}", None)
            if child is not None:
                self._leaving.append(child)

    def _seen(self, attempt: Attempt, replica: Replica) -> Seen:
        name = replica_name(replica.role, replica.index)
        spawned = self._spawned.get(f"{attempt.id}/{name}")
        folder = self._folder(attempt.id, name)
        # Asked before the status is read: what dies in between has left its last word.
        lives = (spawned is not None and spawned.lives()) or folder.supervisor_lives()
        try:
            return self._judged(attempt, replica, folder, lives, was_spawned=spawned is not None)
        except (ValueError, TypeError, OSError) as error:
            # Somebody wrote into our files: this replica is lost, and no other.
            _sweep(replica_id(attempt.id, replica.role, replica.index))
            message = f"its status cannot be read: {error}"
            return Seen(role=replica.role, index=replica.index, state=ReplicaState.LOST, message=message)

    @staticmethod
    def _judged(attempt: Attempt, replica: Replica, folder: Folder, lives: bool, *, was_spawned: bool) -> Seen:
        """What a status means, given whether its supervisor lives or is on its way."""
        status = folder.read_status()
        state = ReplicaState(status.get("seen", ReplicaState.NOTHING))
        message = _text(status.get("message", ""))
        if state not in FINAL_REPLICA_STATES and not lives:
            if status or (was_spawned and not folder.should_stop()):
                _sweep(replica_id(attempt.id, replica.role, replica.index))
                state, message = ReplicaState.LOST, _last_words(folder) or "its supervisor is gone"
            elif folder.should_stop():
                state, message = ReplicaState.LOST, "it was stopped before it started"
        return Seen(
            role=replica.role,
            index=replica.index,
            state=state,
            exit_code=status.get("exit_code"),
            message=message,
            addresses=tuple(map(_text, status.get("addresses", ()))),
            out_of_memory=bool(status.get("out_of_memory")),
            restarts=int(status.get("restarts", 0)),
            last_line=int(status.get("last_line", 0)),
        )

    def _check_room(self) -> None:
        """A replica has to write down what it does from its first moment on. Raises Unavailable."""
        free = shutil.disk_usage(self._cache).free
        if free < _LEAST_FREE_BYTES:
            raise Unavailable(
                f"{self._runs.parent} has no room left for what a replica writes", fix="free some disk space there"
            )

    def _visible_devices(self, replica: LaunchReplica) -> str:
        """Never a real GPU for a declared node: on a machine that has some, its replicas see none."""
        is_real = any(node.name == replica.node and not node.virtual for node in self._nodes)
        return ",".join(replica.devices) if is_real or not self._has_real_devices else ""

    def _attempt_folder(self, attempt: str) -> Path:
        return self._runs / attempt

    def _folder(self, attempt: str, name: str) -> Folder:
        return Folder(str(self._attempt_folder(attempt) / name))

    def _folders(self, attempt: str) -> list[Folder]:
        base = self._attempt_folder(attempt)
        return [Folder(str(path)) for path in sorted(base.iterdir()) if path.is_dir()] if base.is_dir() else []


class _Child:
    """A process in a session of its own, which we may outlive and which may outlive us."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], errors_file: str) -> None:
        """Start it, with nothing to read and its complaints in a file. Raises OSError."""
        write = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._pid = os.posix_spawn(
            command[0],
            list(command),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, errors_file, write, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._lives = True

    def lives(self) -> bool:
        """Whether it has not ended yet. One that has is collected, so that it is no zombie."""
        if self._lives:
            try:
                self._lives = os.waitpid(self._pid, os.WNOHANG)[0] == 0
            except ChildProcessError:
                self._lives = False
        return self._lives


def _place_before(file: IO[bytes], after: int) -> int:
    """A place in a log shortly before the first record after a number. Numbers grow, so that most of it need not be read."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > _NEAR_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of a record
        place = file.tell()
        record = next(filter(None, map(_record, file)), None)
        if record is None or record["n"] > after:
            high = middle
        else:
            low = place
    return low


def _record(line: bytes) -> dict[str, Any] | None:
    """A record of the log; None for one that a crash or a full disk has cut off."""
    try:
        record = json.loads(line.decode("utf-8", errors="replace"))
        return {"n": int(record["n"]), "t": float(record["t"]), "s": str(record["s"]), "m": _text(record["m"])}
    except (ValueError, KeyError, TypeError):
        return None


def _text(value: object) -> str:
    """A text that can be stored, whatever was in the file."""
    return str(value).encode("utf-8", errors="replace").decode()


def _role_and_index(folder: Folder) -> tuple[str, int]:
    role, _, index = os.path.basename(folder.path).rpartition("-")
    return role, int(index)


def _pid(folder: Folder) -> int:
    """The supervisor's process id; 0 in the moment between its lock and its writing it."""
    try:
        return int(Path(folder.pid_file).read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0


def _kill(pid: int, number: int) -> None:
    """Signal a supervisor, whose lock is known to be held."""
    if pid:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def _sweep(replica: str) -> None:
    """End whatever a dead supervisor left behind, told by the variable that all of a replica's processes inherit."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("STOKER_REPLICA_ID") == replica:
                process.kill()
        except psutil.Error:
            continue


def _last_words(folder: Folder) -> str:
    try:
        return Path(folder.errors_file).read_text(errors="replace").strip()[-500:]
    except FileNotFoundError:
        return ""
