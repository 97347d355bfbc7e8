"""How far programs are kept from each other and from the server on this machine: found once, by trying it.

Level 0 is a session of its own; 1 a sandbox by bubblewrap; 2 that, and a user of its own for every owner of jobs.
docs/security.md says what each keeps out.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.core.errors import EngineError, Unavailable
from stoker.runtime import cgroups
from stoker.runtime.cgroups import Cgroups
from stoker.runtime.isolation import FIRST_USER, find_bubblewrap, find_setpriv, sandbox_words, user_home
from stoker.runtime.no_links import give_to, open_folder, real_path
from stoker.runtime.seccomp import filter_for
from stoker.runtime.umask import opened

from .resources import Resources

LEVELS = ("auto", "0", "1", "2")
_END_SECONDS = 5.0
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_LAST_USER = 29_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The level in force, by what it is held, and what the next one would need."""

    home: Path = Path("/nonexistent")
    level: int = 0
    asked: str = "0"
    bwrap: str = ""
    version: str = ""  # of bubblewrap
    setpriv: str = ""
    groups: Cgroups | None = None
    next_level: str = ""  # how to come to the next level, or what it lacks
    folders: tuple[str, ...] = ()  # which every program may write to
    buckets: tuple[str, ...] = ()  # folders that are buckets: a job that names one may write there
    inherited: tuple[str, ...] = ()
    users: tuple[int, int] = (FIRST_USER, _LAST_USER)
    memory_bytes: int = 0
    hold: str = "auto"  # the setting hold_machines
    processes: int = 0
    processes_per_user: int = 0  # 0: no limit
    together: tuple[str, ...] = ()  # what all replicas together are held to
    nicer: int = 0  # by how much supervisors have to be nicer than the server
    server_has: tuple[str, ...] = ()  # by what the server goes before all others
    tmp_bytes: int = 0  # of each folder that a sandbox keeps in memory; 0: half of the machine's

    @property
    def by(self) -> str:
        """What keeps programs apart: `bubblewrap 0.8.0, a filter of system calls, a user for each owner`."""
        if self.level == 0:
            return "the session of every replica"
        machine = platform.machine()
        calls = "a filter of system calls" if filter_for(machine) else f"no filter of system calls (none for {machine})"
        return ", ".join([f"bubblewrap {self.version}", calls] + ["a user for each owner"] * (self.level == 2))

    @property
    def ended_by(self) -> str:
        """How processes are found and ended that a killed supervisor leaves behind."""
        has_group = self.groups and (self.limits or not self.level)
        certain = (["PID namespace"] if self.level else []) + ([self.groups.kind] if has_group and self.groups else [])
        return ", ".join(certain) or "what the supervisor noted, and a variable"

    @property
    def limits(self) -> str:
        """What a replica is held to: `10000 processes`."""
        can = self.groups.limits if self.groups else {}
        parts = [f"{self.processes} processes"] if self.processes and "pids" in can else []
        parts += [f"{self.memory_bytes / 2**30:g} GB of memory"] if self.memory_bytes and "memory" in can else []
        return ", ".join(parts)

    @property
    def keeps_server(self) -> str:
        """What keeps the server answering, whatever jobs do: `oom_score_adj -900, nice -5; all jobs: cpu.shares 1024`."""
        own, all_jobs = ", ".join(self.server_has), ", ".join(self.together)
        return "; ".join(filter(None, [own, all_jobs and f"all jobs together: {all_jobs}"]))

    @property
    def holds_memory(self) -> bool:
        """Whether a replica can be held to the memory that it has asked for."""
        return self.groups is not None and "memory" in self.groups.limits

    @property
    def holds_machines(self) -> bool:
        """Whether programs are held to what their machines have: on shared sites, unless the admin says otherwise."""
        return self.hold == "on" or (self.hold == "auto" and self.level == 2)

    def group(self, name: str, asked: Mapping[str, Any]) -> list[str]:
        """Make a control group for what a replica has asked for, where that can be done. Returns its folders. Raises OSError.

        A sandbox has a PID namespace: it needs a group for limits alone, and a start costs some milliseconds less without.
        """
        own = asked["memory_limit_bytes"] or (asked["machine_memory_bytes"] if self.holds_machines else 0)
        if self.groups is None or (self.level and not self.limits and not own):
            return []
        most = min(filter(None, (self.memory_bytes, own)), default=0)
        return self.groups.make(
            name, most, self.processes, asked["vcpus"], is_hard=self.holds_machines and asked["is_sized"]
        )

    def groups_of(self, beginning: str) -> set[str]:
        """The control groups whose names begin so."""
        return {name for name in self.groups.names() if name.startswith(beginning)} if self.groups else set()

    def end_group(self, name: str) -> None:
        """End what is in a control group, and remove it."""
        if self.groups:
            folders = self.groups.group(name)
            until = time.monotonic() + _END_SECONDS
            while not cgroups.kill(folders[0]) and time.monotonic() < until:
                time.sleep(0.01)
            cgroups.remove(folders)

    def words(self, owner: str, folders: Sequence[str]) -> Mapping[str, Any]:
        """What a replica's request says of it. `folders`: those that the job names."""
        if self.level == 0:
            return {"level": 0}
        inside, outside = self._sorted(folders)
        return sandbox_words(
            self.level,
            str(self.home),
            self.bwrap,
            self.setpriv,
            owner,
            folders=[*map(os.path.realpath, self.folders), *outside],
            own_folders=inside,
            inherit=list(self.inherited),
            tmp_bytes=self.tmp_bytes,
        )

    def prepare(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Make the folders of a request, and find its user. Returns its words with that. Raises EngineError or OSError."""
        prepared = dict(words)
        if self.level == 0:
            return prepared
        folders = [*words["folders"], *words["own_folders"]]
        if problem := self.problem(folders):
            raise EngineError(problem)
        for path in (os.path.dirname(words["own_home"]), words["own_home"]):
            os.close(open_folder(path, make=0o700))
        if self.level == 2:
            prepared["user"] = self._user(words["owner"])
        try:
            for folder in folders:
                os.close(open_folder(folder, make=opened(0o777)))
            for folder in (words["own_home"], *words["own_folders"]) if self.level == 2 else ():
                give_to(folder, prepared["user"])
        except NotADirectoryError:
            raise EngineError(
                f"its job directory is not what it was: {folder} leads through a link or a file now; remove that"
            ) from None
        return prepared

    def user_of(self, owner: str) -> int | None:
        """As whom the programs of an owner run on this machine; None: as the server does. Raises EngineError if none is left."""
        return self._user(owner) if self.level == 2 else None

    def _sorted(self, folders: Sequence[str]) -> tuple[list[str], list[str]]:
        """The paths in Stoker's home, and the others."""
        opened = [self._opened(self._where(folder)) for folder in folders]
        home = os.path.realpath(self.home)
        return [f for f in opened if _is_in(f, home)], [f for f in opened if not _is_in(f, home)]

    def _where(self, folder: str) -> str:
        """The path of a folder that a job names. Below a bucket or a job folder no link is followed.

        A program may have put one there, and it may lead into another's bucket by now. The bucket itself is the admin's.
        """
        kept = str(self.home / "buckets")
        own = [os.path.join(kept, *folder[len(kept) + 1 :].split("/")[:2])] if _is_in(folder, kept) else []
        for top in (*own, *self.buckets, *self.folders):
            for above in (top, os.path.realpath(top)):
                if _is_in(folder, above):
                    return os.path.realpath(top) + folder[len(above.rstrip("/")) :]
        return real_path(folder)

    def _opened(self, folder: str) -> str:
        """What is opened for a folder that a job names: all of its bucket, as in a cloud; of it alone at level 2."""
        kept = os.path.realpath(self.home / "buckets")
        parts = folder[len(kept) + 1 :].split("/") if folder.startswith(kept + "/") else []
        buckets = [os.path.join(kept, *parts[:2])] if len(parts) > 1 else list(map(os.path.realpath, self.buckets))
        return next((bucket for bucket in buckets if _is_in(folder, bucket)), folder) if self.level == 1 else folder

    def problem(self, folders: Iterable[str]) -> str:
        """Why programs may not write to one of the folders that a job names; empty: they may."""
        return next(filter(None, (self._problem(self._where(folder)) for folder in folders)), "")

    def _problem(self, folder: str) -> str:
        """A job may open a place for data to itself, but nothing of the system, of Stoker or of its user's keys."""
        open_to_jobs = [*self.folders, *self.buckets, str(self.home / "buckets")]
        if self.level == 0 or any(_is_in(folder, os.path.realpath(path)) for path in open_to_jobs):
            return ""
        users, kept = user_home(), [str(self.home), sys.prefix, sys.base_prefix]
        is_kept = any(_is_in(folder, os.path.realpath(p)) or _is_in(os.path.realpath(p), folder) for p in kept)
        is_system = any(_is_in(folder, p) for p in _SYSTEM) and not _is_in(folder, "/var/tmp")
        hidden = users and _is_in(folder, users) and "/." in folder[len(users) :]
        if is_kept or is_system or hidden or (users and _is_in(users, folder)):
            return (
                f"programs may not write to {folder} at isolation level {self.level}: it holds parts of the system, of"
                " Stoker or hidden files; choose another job directory, or let the admin allow it: stoker config set"
                " job_folders FOLDER"
            )
        return ""

    def _user(self, owner: str) -> int:
        """The user of an owner: the same one always."""
        path = self.home / "job-users.json"
        known = _users_in(path)
        if owner not in known:
            free = sorted(set(range(self.users[0], self.users[1] + 1)) - set(known.values()))
            if not free:
                raise EngineError(
                    f"no user is left for the jobs of {owner}: a wider range is needed, stoker config set job_users"
                    " FIRST-LAST"
                )
            known[owner] = free[0]
            _write_durably(path, json.dumps(known, indent=1))
        return known[owner]


def _users_in(path: Path) -> dict[str, int]:
    """Who has which user. Raises EngineError if the file tells no such thing: nobody is to get another's files."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(known, dict) and all(type(user) is int for user in known.values()):
            return known
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        pass
    raise EngineError(
        f"{path} is damaged: it does not tell which owner has which user; restore it from a backup, or write it anew by"
        " the owners of the folders in job-homes"
    )


def _write_durably(path: Path, text: str) -> None:
    """Write a file so that a power cut leaves the old one or the new one. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


LEVEL_0 = Isolation()
"""Nothing but a session of its own for every replica."""


def detect(asked: str, home: Path, **settings: Any) -> Isolation:
    """What this machine can do, and of that what is asked for. Raises Unavailable if it cannot do that."""
    groups = cgroups.find(f"stoker-{os.getuid()}") if sys.platform.startswith("linux") else None
    bwrap, version, lacks_1 = find_bubblewrap(str(home))
    setpriv, lacks_2 = ("", lacks_1) if lacks_1 else find_setpriv(str(home), bwrap)
    lacks = {1: lacks_1, 2: lacks_2}
    level = int(asked) if asked != "auto" else 0 if lacks_1 else 1
    problem = lacks.get(level)
    if problem:
        raise Unavailable(
            f"isolation level {level} cannot be had here: it needs {problem.what}",
            fix=f"{problem.fix}; or take what works: stoker config set isolation auto",
        )
    here = Resources.here()
    together = tuple(groups.hold_all(here.bytes_of_jobs, here.cores)) if groups else ()
    next_level = ""
    if level < 2:
        problem = lacks[level + 1]
        works = f"works here: stoker config set isolation {level + 1}"
        next_level = f"level {level + 1} " + (f"needs {problem}" if problem else works)
    return Isolation(
        home=home,
        level=level,
        asked=asked,
        bwrap=bwrap,
        version=version,
        setpriv=setpriv,
        groups=groups,
        together=together,
        processes_per_user=here.tasks_of_user,
        next_level=next_level,
        **settings,
    )


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
