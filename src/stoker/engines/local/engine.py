"""This machine as an engine: every replica is a supervised process group, detached from the server.

A server that restarts finds its replicas again by their folders, `runs/<project>/<job>.<attempt>/<role>-<index>/`; their
supervisors hold locks there and keep status files (see runtime/folder.py). Nothing else ties them to the server.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.core.copies import replace
from stoker.core.errors import EngineError, Unavailable
from stoker.core.ids import replica_name
from stoker.core.job import Attempt, Replica
from stoker.core.launch import Launch, LaunchReplica
from stoker.core.node import Node
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.runtime import umask
from stoker.runtime.errors import MAY_PASS
from stoker.runtime.folder import Folder, write_whole
from stoker.runtime.processes import send_if
from stoker.runtime.zipapp import START

from ..base import Request, Seen, words_of
from ..status import BAD_STATUS, seen_of
from .archive import Archive
from .child import Child
from .isolation import LEVEL_0, Isolation
from .leftovers import MARK, end_leftovers, end_strays, forget_group, mark, mark_of_home
from .old_runs import KEEP_RUNS_DAYS, OldRuns, attempts_in
from .replica_log import read_log
from .server_file import ServerFile
from .spent_logs import Kept, SpentLogs

HOST = "127.0.0.1"
STARTS_AT_ONCE = 16
"""So many supervisors of a gang are started in one round of the control loop, which takes a tenth of a second."""

_ORPHANS_SECONDS = 10.0
_LEAST_FREE_BYTES = 4 << 20
_RUNS = (ReplicaState.STARTING, ReplicaState.UP)
_log = logging.getLogger("stoker.engine")


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
        isolation: Isolation = LEVEL_0,
        keep_runs_days: float = KEEP_RUNS_DAYS,
        kept: Kept | None = None,
    ) -> None:
        """`token`: attempt id → the token its replicas may use. `runtime`: the zipapp. `server_url`: empty, if said later.

        `kept`: what the server has of a replica's lines; without it their logs stay where they are.
        """
        self._runs = home / "runs"
        self.isolation = isolation
        self._old_runs = OldRuns(self._runs, keep_runs_days)
        self._spent_logs = SpentLogs(self._runs, kept) if kept is not None else None
        self._cache = home / "cache"
        self._nodes = tuple(nodes)
        self._archive = Archive(runtime, self._cache)
        self._unknown: frozenset[str] = frozenset()  # which the database has lost: nobody knows what they hold
        self._leaving: list[Child] = []  # supervisors whose attempts are over; they may still be shipping lines
        self._server_file = ServerFile(home / "cache" / "server-url")
        self._token = token
        self._uv = uv
        self._ring: Callable[[], None] = lambda: None
        self._spawned: dict[str, Child] = {}  # replica id → supervisors that we started ourselves
        if server_url:
            self.be_found_at(server_url)
        self._has_real_devices = any(node.devices and not node.virtual for node in nodes)

    def be_found_at(self, server_url: str) -> None:
        """Let replicas find the server there, also those of an earlier one."""
        self._server_file.tell(server_url)

    def nodes(self) -> Sequence[Node]:
        """This machine, and the nodes declared on it."""
        self._leaving = [child for child in self._leaving if child.lives()]  # asked every round: no zombie stays long
        self._old_runs.prune_when_due()
        self._server_file.mend()
        return self._nodes

    def render(self, launch: Launch) -> Request:
        """The request file of every replica, but for the token and the server's address."""
        isolation = self.isolation.words(launch.owner, launch.folders)
        return Request(
            attempt=launch.attempt,
            replicas={
                replica_name(r.role, r.index): {
                    **words_of(launch, r),
                    "env": {**r.env, **self._marks(launch.attempt, replica_name(r.role, r.index))},
                    "isolation": isolation,
                    "visible_devices": self._visible_devices(r),
                    "is_virtual": not self._is_real(r),
                    "host": HOST,
                    "loopback_interface": "lo0" if sys.platform == "darwin" else "lo",
                }
                for r in launch.replicas
            },
        )

    def start(self, request: Request) -> None:
        """Make the folders and start a supervisor in each. One that runs, or has run, is left alone.

        Of many only some are started at once, and it rings for the order to be given again: other jobs wait meanwhile.

        Raises Unavailable for what may pass, so that the order is given again: no room on the disk, too many processes.
        """
        self._check_room()
        started = 0
        for name, words in request.replicas.items():
            spawned = self._spawned.get(f"{request.attempt}/{name}")
            if spawned is not None and spawned.lives():
                continue  # it runs, or is on its way to the lock
            folder = self._folder(request.attempt, name)
            if folder.should_stop() or folder.read_status() or folder.supervisor_lives():
                continue
            if self._unknown:
                raise Unavailable("nothing is started here beside programs that the database does not know")
            if started == STARTS_AT_ONCE:
                return self._ring()
            started += 1
            try:
                os.makedirs(folder.path, mode=0o700, exist_ok=True)
                whole = {
                    **words,
                    "server_file": str(self._server_file.path),
                    "token": self._token(request.attempt),
                    "cache": str(self._cache),
                    "uv": self._uv,
                    "isolation": self.isolation.prepare(words["isolation"]),
                    "nicer": self.isolation.nicer,
                    "processes_per_user": self.isolation.processes_per_user,
                    "cgroup": self.isolation.group(mark(self._runs, folder), words),
                    "umask": umask.mask(),
                }
                write_whole(folder.request_file, json.dumps(whole))
                command = [sys.executable, "-I", "-S", "-c", START, self._archive.path(), folder.path]
                marked = {**os.environ, **self._marks(request.attempt, name)}
                self._spawned[f"{request.attempt}/{name}"] = Child(command, marked, folder.errors_file)
            except OSError as error:
                kind = Unavailable if error.errno in MAY_PASS else EngineError
                raise kind(f"{name} cannot be started on this machine: {error}") from error

    def stop(self, attempt: str, *, force: bool) -> None:
        """Raise the fence, then tell the supervisors: TERM, upon which they give their program the grace; or KILL."""
        os.makedirs(self._attempt_folder(attempt), mode=0o700, exist_ok=True)
        fence = self._attempt_folder(attempt) / "stop"
        is_new = not fence.exists()
        fence.touch()
        if not is_new and not force:
            return  # they have been told: the order is given again in every round
        for folder in self._folders(attempt):
            if force:
                _signal(folder, signal.SIGKILL)
                if not _has_ended(folder):
                    self._is_over(folder)
            elif is_new:
                _signal(folder, signal.SIGTERM)

    def ask(self, attempt: str, request: Mapping[str, Any]) -> None:
        """Put it into their folders."""
        for folder in self._folders(attempt):
            if folder.supervisor_lives():
                write_whole(folder.ask_file, json.dumps(dict(request)))

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What the folders tell."""
        return {
            a.id: [self._seen(a, r) for r in a.replicas if r.seen not in FINAL_REPLICA_STATES]
            for a in attempts.values()
        }

    def attempts(self) -> Collection[str]:
        """The attempts that have a folder."""
        return list(attempts_in(self._runs))

    def put_away(self, attempts: Collection[str], folder: Path) -> set[str]:
        """Move their folders."""
        running = set()
        for attempt in attempts:
            if any(not _has_ended(f) and _may_run(f) for f in self._folders(attempt)):
                running.add(attempt)
            elif self._attempt_folder(attempt).is_dir():
                (folder / attempt).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._attempt_folder(attempt).rename(folder / attempt)
        self._unknown = frozenset(running)
        return running

    def adopt(self, live: Collection[str], nodes: Sequence[Node] = (), *, unknown: Collection[str] = ()) -> None:
        """Take over what an earlier server left here. What is of no live attempt is ended at once: its devices count as free."""
        kept: set[str] = set()
        self._unknown, live = frozenset(unknown), {*live, *unknown}
        for attempt in attempts_in(self._runs):
            folders = self._folders(attempt)
            strays = [f for f in folders if attempt not in live and not _has_ended(f) and _may_run(f)]
            if (
                attempt not in live and self._spent_logs is not None
            ):  # those of whom an earlier server did not come to it
                self._spent_logs.add(folders)
            if strays:
                _log.warning("%s may run and is not live: it is ended", attempt)
                self.stop(attempt, force=True)
                self._wait_for_end(strays)
            kept |= {mark(self._runs, f) for f in folders if attempt in live or f.supervisor_lives()}
        for name in self.isolation.groups_of(mark_of_home(self._runs)) - kept:
            self.isolation.end_group(name)
        if end_strays(self._runs, kept):
            _log.warning("processes of ended attempts were left behind, and are ended")

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """The lines on disk."""
        return read_log(self._folder(attempt, replica).log_file, after)

    def forget(self, attempt: str) -> None:
        """The folders stay: they answer for the attempt if it is asked about again, and hold what programs wrote there.

        Of their lines the server has all, and keeps the only copy. What was secret in their requests goes: the attempt's token
        and the variables that the job was given.
        """
        if self._spent_logs is not None:
            self._spent_logs.add(self._folders(attempt))
        for folder in self._folders(attempt):
            child = self._spawned.pop(f"{attempt}/{os.path.basename(folder.path)}", None)
            if child is not None:
                self._leaving.append(child)
            forget_group(folder)
            folder.forget_secrets()

    def listen(self, ring: Callable[[], None]) -> None:
        """Its nodes stay as they are, and its replicas report by themselves: it rings while more are to be started."""
        self._ring = ring

    def problem(self) -> str:
        """None: the server itself runs here."""
        return ""

    def _seen(self, attempt: Attempt, replica: Replica) -> Seen:
        name = replica_name(replica.role, replica.index)
        spawned = self._spawned.get(f"{attempt.id}/{name}")
        folder = self._folder(attempt.id, name)
        # Asked before the status is read: what dies in between has left its last word.
        lives = (spawned is not None and spawned.lives()) or folder.supervisor_lives()
        try:
            seen = self._judged(replica, folder, lives, was_spawned=spawned is not None)
        except (*BAD_STATUS, OSError) as error:
            # Somebody wrote into our files: this replica is lost, and no other.
            _signal(folder, signal.SIGKILL)
            message = f"its status cannot be read: {error}"
            seen = Seen(role=replica.role, index=replica.index, state=ReplicaState.LOST, message=message)
        if seen.state is not ReplicaState.LOST and replica.seen in _RUNS and not os.path.isdir(folder.path):
            message = f"its folder {folder.path} was removed while it ran"
            seen = Seen(role=replica.role, index=replica.index, state=ReplicaState.LOST, message=message)
            self._end_without_folder(folder, spawned)
        if seen.state is ReplicaState.LOST and not self._is_over(folder):
            # Its devices stay its own as long as one of its processes lives.
            last = replica.seen if replica.seen is not ReplicaState.NOTHING else ReplicaState.STARTING
            return Seen(role=replica.role, index=replica.index, state=last)
        return seen

    def _end_without_folder(self, folder: Folder, spawned: Child | None) -> None:
        """End a supervisor whose notes are gone, and the group that bears its mark; `_is_over` looks for what is left."""
        if spawned is not None:
            spawned.kill()
        self.isolation.end_group(mark(self._runs, folder))

    def _wait_for_end(self, folders: Sequence[Folder]) -> None:
        until = time.monotonic() + _ORPHANS_SECONDS
        while not all([self._is_over(folder) for folder in folders]):
            if time.monotonic() > until:
                _log.error("processes of %s do not end", os.path.dirname(folders[0].path))
                return

    def _is_over(self, folder: Folder) -> bool:
        """End what is left of a replica without a supervisor. Returns whether nothing is."""
        return end_leftovers(folder, mark(self._runs, folder))

    @staticmethod
    def _judged(replica: Replica, folder: Folder, lives: bool, *, was_spawned: bool) -> Seen:
        """What a status means, given whether its supervisor lives or is on its way."""
        status = folder.read_status()
        seen = seen_of(replica, status)
        if seen.state not in FINAL_REPLICA_STATES and not lives:
            if status or (was_spawned and not folder.should_stop()):
                message = _last_words(folder) or "its supervisor is gone"
                return replace(seen, state=ReplicaState.LOST, message=message)
            if folder.should_stop():
                return replace(seen, state=ReplicaState.LOST, message="it was stopped before it started")
        return seen

    def _marks(self, attempt: str, name: str) -> dict[str, str]:
        """The variables that all processes of a replica inherit."""
        return {"STOKER_REPLICA_ID": f"{attempt}/{name}", MARK: mark(self._runs, self._folder(attempt, name))}

    def _check_room(self) -> None:
        """A replica has to write down what it does from its first moment on. Raises Unavailable."""
        free = shutil.disk_usage(self._cache).free
        if free < _LEAST_FREE_BYTES:
            raise Unavailable(
                f"{self._runs.parent} has no room left for what a replica writes", fix="free some disk space there"
            )

    def _visible_devices(self, replica: LaunchReplica) -> str:
        """Never a real GPU for a declared node: on a machine that has some, its replicas see none."""
        return ",".join(replica.devices) if self._is_real(replica) or not self._has_real_devices else ""

    def _is_real(self, replica: LaunchReplica) -> bool:
        return any(node.name == replica.node and not node.virtual for node in self._nodes)

    def _attempt_folder(self, attempt: str) -> Path:
        return self._runs / attempt

    def _folder(self, attempt: str, name: str) -> Folder:
        return Folder(
            f"{self._runs}/{attempt}/{name}"
        )  # every replica's, in every round: a Path costs as much as a look

    def _folders(self, attempt: str) -> list[Folder]:
        base = self._attempt_folder(attempt)
        return [Folder(str(path)) for path in sorted(base.iterdir()) if path.is_dir()] if base.is_dir() else []


def _has_ended(folder: Folder) -> bool:
    """Whether its program has, and its supervisor only ships the last lines."""
    try:
        return folder.read_status().get("seen") in FINAL_REPLICA_STATES
    except (ValueError, OSError):
        return False


def _may_run(folder: Folder) -> bool:
    """Whether its supervisor lives, or was killed and left notes of processes that nobody has looked for yet."""
    return folder.supervisor_lives() or os.path.exists(folder.processes_file)


def _pid(folder: Folder) -> int:
    """The supervisor's process id; 0 in the moment between its lock and its writing it."""
    try:
        return int(Path(folder.pid_file).read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0


def _signal(folder: Folder, number: int) -> None:
    """Signal a supervisor, if it lives. The id is its own as long as the lock is held."""
    pid = _pid(folder)
    if pid:
        send_if(pid, number, lambda: folder.supervisor_lives() and _pid(folder) == pid)


def _last_words(folder: Folder) -> str:
    try:
        return Path(folder.errors_file).read_text(errors="replace").strip()[-500:]
    except FileNotFoundError:
        return ""
