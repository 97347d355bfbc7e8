"""A copy, on this machine, of a folder that lies with the site: brought before the program begins, and what changes here is sent.

    folders/0/          what the program sees
    folders/0.json      what of it is the same there, by the stamps of both
    folders/0.lock      held by the one of this machine's replicas that brings and sends

A file is sent when nobody has written to it for a moment, whole, in the order in which files were last written, and nothing goes
before what is older: so a list of checkpoints, which programs write last, never names one that is not there. What is removed here
is removed there once all else is there. What is only printed for people goes after the rest.
The program owns this folder and may rearrange it at any moment: no link in it is ever followed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
from typing import IO, Any, Callable, Dict, NamedTuple, Optional, Set

from .folder import write_whole
from .no_links import make_folder_at, open_folder, walk
from .server import Hindered, Unacceptable, Unreachable
from .site_folder import BadName, Changed, SiteFolder, Stamp, error_message, stamp_of

LONGEST_UNSENT_SECONDS = 10.0
"""A file that is written to all the time is sent as often as this."""

_LATER = re.compile(r"(^|/)events\.out\.tfevents|\.(log|txt|csv|jsonl|out|err)$")
_OWN = re.compile(r"(^|/)(state(-\d+)?|call-\d+)/(alone-\d+/)?\.?step-\d{9,}[./]")
"""Checkpoints that Stoker's own code brings and sends (frameworks/checkpointing/remote.py)."""

_PART = ".stoker-part"
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEVER_NS = 1 << 63


class Traffic:
    """How much has gone to and fro, and how quickly."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, progress: Callable[[], None] = lambda: None
    ) -> None:
        """`progress` is called whenever something was sent."""
        self._clock, self._progress = clock, progress
        self.sent_bytes = 0
        self.kept_files = 0  # that the site has
        self.seconds = 0.0  # in which something was sent
        self.waiting_bytes = 0  # to be sent
        self.waiting_files = 0

    def timed(self, what: Callable[[], Any]) -> Any:
        """Do something, and count its time."""
        began = self._clock()
        try:
            return what()
        finally:
            self.seconds += self._clock() - began

    def count(self, size: int) -> None:
        """So much was sent."""
        self.sent_bytes += size
        self._progress()

    @property
    def bytes_per_second(self) -> float:
        """0: not known yet."""
        return self.sent_bytes / self.seconds if self.seconds > 0.1 else 0.0


class _Known(NamedTuple):
    """The stamps of a file when it was the same here and there."""

    here: Stamp
    there: Stamp


class Mirror:
    """One folder. For one thread."""

    def __init__(
        self,
        folder: str,
        remote: SiteFolder,
        traffic: Traffic,
        refused: Callable[[str, str], None],
        *,
        user: Optional[int] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`refused` is called with a path and why it is never going to be sent. `user`: whose the files here are."""
        self.folder = folder
        self._remote, self._traffic, self._refused, self._user, self._clock = remote, traffic, refused, user, clock
        self._known: Dict[str, _Known] = {}
        self._known_by: Optional[Stamp] = None  # the stamp of the file that says so
        self._seen: Dict[str, Stamp] = {}  # as they were at the last look
        self._changing_since: Dict[str, float] = {}  # what is not there as it is here, since when
        self._gone: Set[str] = set()  # at the last look
        self._never: Dict[str, Stamp] = {}  # what is not sent as it is
        self._lock: Optional[int] = None

    def hold(self) -> bool:
        """Be the one that brings and sends, until `release`. Returns whether we are."""
        if self._lock is None:
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            lock = os.open(self.folder + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                return False
            self._lock = lock
            self._load()
        return True

    def release(self) -> None:
        """Let another do it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """Let go of the way to the site."""
        self.release()
        self._remote.close()

    @property
    def is_there(self) -> bool:
        """Whether it has been brought here."""
        return os.path.exists(self.folder + ".json")

    def bring(self, told: Callable[[int, int], None], give_up: Callable[[], bool]) -> None:
        """Fetch what is there and not here. `told`: how many files and bytes that will be. Raises OSError for a full disk."""
        os.makedirs(self.folder, exist_ok=True)
        if self._user is not None:
            os.chown(self.folder, self._user, self._user)
            os.chmod(self.folder, 0o711)  # bubblewrap goes there before it is that user
        there = {path: stamp for path, stamp in self._remote.files().items() if not _OWN.search(path)}
        new = [path for path, stamp in there.items() if path not in self._known or self._known[path].there != stamp]
        told(len(new), sum(there[path][0] for path in new))
        for path in new:
            if give_up():
                return
            self._fetch(path, there[path], give_up)
        self._save()

    def refresh(self) -> None:
        """What others have changed there is changed here, but where it was changed here as well."""
        there = {path: stamp for path, stamp in self._remote.files().items() if not _OWN.search(path)}
        here, is_whole = self._scan()
        is_news = False
        for path, stamp in there.items():
            known = self._known.get(path)
            if (known is None or known.there != stamp) and here.get(path) == (known.here if known else None):
                self._fetch(path, stamp, lambda: False)
                is_news = True
        for path in [path for path in self._known if path not in there and is_whole]:
            if here.get(path) == self._known[path].here:
                self._remove_here(path)
            del self._known[path]
            is_news = True
        if is_news:
            self._save()

    def look(self, *, is_final: bool = False, in_order: bool = True) -> bool:
        """Send what has changed here, and remove there what is gone. Returns whether all is there now.

        `is_final`: nobody writes any more. `in_order`: what cannot be sent keeps back what is newer. Raises Refused, Unreachable;
        Hindered, when all else was tried, for what the site cannot take now.
        """
        (here, is_whole), now = self._scan(), self._clock()
        changed = [path for path, stamp in here.items() if self._must_send(path, stamp)]
        self._changing_since = {path: self._changing_since.get(path, now) for path in changed}
        ready = [path for path in changed if is_final or self._is_ready(path, here[path], now)]
        ready.sort(key=lambda path: (_is_later(path), here[path][1], path))
        gone = {path for path in self._known if path not in here} if is_whole else set()
        # Nothing is sent that is newer than what is not ready: it may name it.
        newest = min((here[path][1] for path in {*changed} - {*ready} if not _is_later(path)), default=_NEVER_NS)
        self._seen = here
        self._traffic.waiting_bytes, self._traffic.waiting_files = sum(here[path][0] for path in ready), len(ready)
        hindered: Optional[Hindered] = None
        is_news = False
        for path in ready:
            if _is_later(path) or here[path][1] <= newest or not in_order:
                try:
                    self._clear_way(path, gone)
                    if self._send(path, here[path], is_final=is_final):
                        is_news = True
                    elif not _is_later(path) and self._never.get(path) != here[path]:
                        newest = min(newest, here[path][1])
                except Hindered as error:
                    hindered, newest = error, newest if _is_later(path) else min(newest, here[path][1])
            self._traffic.waiting_bytes -= here[path][0]
            self._traffic.waiting_files -= 1
            if is_news and self._clock() - now > 1.0:  # so that a supervisor that is killed leaves what is true
                self._save()
        left = [path for path in changed if self._must_send(path, here[path])]
        if not any(not _is_later(path) for path in left):  # after what stands for it has come
            for path in sorted(gone if is_final else gone & self._gone):
                if path in self._known:
                    self._remote.remove(path)
                    del self._known[path]
                    is_news = True
        self._gone = gone
        if is_news:
            self._save()
        if hindered is not None:
            raise hindered
        return is_whole and not left

    def _must_send(self, path: str, stamp: Stamp) -> bool:
        """Whether it is not there as it is here, and may be."""
        known = self._known.get(path)
        return (known is None or known.here != stamp) and self._never.get(path) != stamp

    def _is_ready(self, path: str, stamp: Stamp, now: float) -> bool:
        """Whether nobody has written to it since the last look; or somebody does so all the time."""
        return self._seen.get(path) == stamp or self._is_overdue(path, now)

    def _is_overdue(self, path: str, now: float) -> bool:
        return now - self._changing_since.get(path, now) > LONGEST_UNSENT_SECONDS

    def _clear_way(self, path: str, gone: Set[str]) -> None:
        """Where the site has a folder, and here is a file of that name now, or the other way round."""
        for other in [one for one in gone if one.startswith(path + "/") or path.startswith(one + "/")]:
            if other in self._known:
                self._remote.remove(other if path.startswith(other + "/") else path)
                del self._known[other]

    def _send(self, path: str, seen: Stamp, *, is_final: bool) -> bool:
        """Send one as it was at this look. Returns whether it is there."""
        try:
            with self._open(path) as file:
                stamp = stamp_of(os.fstat(file.fileno()))
                if stamp != seen and not is_final and not self._is_overdue(path, self._clock()):
                    return False
                there = self._traffic.timed(lambda: self._remote.send(path, file, self._traffic.count))
        except (Changed, FileNotFoundError, NotADirectoryError):
            return False  # looked at again
        except (Unacceptable, BadName, PermissionError) as error:
            self._never[path] = seen
            self._refused(path, error_message(error))
            return False
        self._known[path] = _Known(stamp, there)
        self._traffic.kept_files += 1
        self._changing_since.pop(path, None)
        return True

    def _scan(self) -> "tuple[Dict[str, Stamp], bool]":
        """The regular files that are here, and whether these are all. What is being brought is none of them."""
        found: Dict[str, Stamp] = {}
        try:
            top = open_folder(os.path.realpath(self.folder))
            try:
                for folder in walk(top):
                    for name, seen in folder.entries.items():
                        path = f"{folder.path}/{name}" if folder.path else name
                        if stat.S_ISREG(seen.st_mode) and not name.endswith(_PART) and not _OWN.search(path):
                            found[path] = stamp_of(seen)
            finally:
                os.close(top)
        except (OSError, RecursionError):
            return found, False
        return found, True

    def _fetch(self, path: str, stamp: Stamp, give_up: Callable[[], bool]) -> None:
        """Bring one, whole. One that is gone meanwhile is left out. Raises OSError, Unreachable."""
        above, name = os.path.split(path)
        folder = self._folder_here(above, make=True)
        part = f".{name[:100]}{_PART}"
        try:
            try:
                os.unlink(part, dir_fd=folder)
            except FileNotFoundError:
                pass
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o644, dir_fd=folder)
            try:
                with open(descriptor, "wb") as file:
                    self._remote.bring(path, file, give_up)
                    file.flush()
                    if file.tell() != stamp[0]:
                        raise Unreachable(f"{path} was cut off, or is being replaced")
                    if self._user is not None:
                        os.fchown(file.fileno(), self._user, self._user)
                    os.utime(file.fileno(), ns=(stamp[1], stamp[1]))
                    here = stamp_of(os.fstat(file.fileno()))
                os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException as error:
                os.unlink(part, dir_fd=folder)
                if isinstance(error, Unacceptable):  # it is gone
                    return
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise OSError(error.errno, f"the disk of this machine has no room for {path}") from None
                raise
        finally:
            os.close(folder)
        self._known[path] = _Known(here, stamp)
        self._seen[path] = here

    def _remove_here(self, path: str) -> None:
        above, name = os.path.split(path)
        try:
            folder = self._folder_here(above)
            try:
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError:
            pass  # it is gone, or is something else now

    def _open(self, path: str) -> IO[bytes]:
        """A regular file. Raises OSError."""
        above, name = os.path.split(path)
        folder = self._folder_here(above)
        try:
            descriptor = os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise FileNotFoundError(path) from None
            raise
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(path)
        return open(descriptor, "rb")

    def _folder_here(self, path: str, *, make: bool = False) -> int:
        """A folder below this one, opened step by step. Raises OSError, for a link as well."""
        descriptor = open_folder(os.path.realpath(self.folder))
        for part in filter(None, path.split("/")):
            above = descriptor
            try:
                try:
                    descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=above)
                except FileNotFoundError:
                    if not make:
                        raise
                    descriptor = make_folder_at(part, 0o755, above)
                    if self._user is not None:
                        os.chown(part, self._user, self._user, dir_fd=above, follow_symlinks=False)
            finally:
                os.close(above)
        return descriptor

    def _load(self) -> None:
        """What the one before us has written, unless that was us."""
        try:
            with open(self.folder + ".json", encoding="utf-8") as file:
                by = stamp_of(os.fstat(file.fileno()))
                if by != self._known_by:
                    self._known = {path: _Known(*stamps) for path, stamps in json.load(file).items()}
                    self._known_by = by
        except (OSError, ValueError, TypeError):
            self._known = {}

    def _save(self) -> None:
        try:
            write_whole(self.folder + ".json", json.dumps(self._known))
            self._known_by = stamp_of(os.stat(self.folder + ".json"))
        except OSError:
            pass  # a full disk: files are sent once more, should another go on


def _is_later(path: str) -> bool:
    """Whether it is for people, and nothing depends on it."""
    return bool(_LATER.search(path))
