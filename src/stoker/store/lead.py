"""Who leads: a lock that one server of a home, or of a database, has at a time. It goes with the process that has it."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.core.errors import Unavailable
from stoker.runtime.lease import boot_seconds

from .databases import LEAD_LOCK, SILENT_SECONDS, open_database, problem_of

SURE_SECONDS = SILENT_SECONDS - 2
"""So long after its last word with the database a server is sure to have the lock; then it writes nothing until it has asked."""


class Lead(Protocol):
    """The lock of who leads."""

    def take_home(self) -> bool:
        """Try to lock the home alone, before anything is asked of its database; it stays so while that is away."""
        ...

    def take(self, *, over: bool = False) -> bool:
        """Try to take it, once. `over`: from a server that may hang, and so may still have the home's."""
        ...

    def confirm(self) -> bool:
        """Ask whether it is still ours."""
        ...

    def is_sure(self) -> bool:
        """Whether it is certainly ours now. Asks nobody."""
        ...

    def release(self) -> None:
        """Let go of it."""
        ...


def close_home(home: Path) -> None:
    """Close a home to other users, with what lies in it: what jobs print and the database are for this user alone.

    One level deep: nobody comes through a folder that is closed. What is made later is made so (runtime/umask.py).
    """
    home.chmod(0o700)
    for entry in os.scandir(home):
        with suppress(OSError):  # somebody else's, or just removed
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if mode & 0o077 and not entry.is_symlink():
                os.chmod(entry.path, mode & 0o700)


class HomeLead:
    """Implements Lead for a home whose database is in it: the lock on `server.lock`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "server.lock"
        self._lock: IO[str] | None = None

    def take_home(self) -> bool:
        """The home is all there is to lock."""
        return self.take()

    def take(self, *, over: bool = False) -> bool:
        """Try to lock the home, unless we have. Raises Unavailable for a folder that cannot be used. Who hangs keeps it."""
        return self._take(self._path)

    def take_anew(self) -> bool:
        """Lock the home by another file in the place of the first, whoever has that one."""
        return self._take(self._path.with_suffix(".new"))

    def confirm(self) -> bool:
        """Whether we have it: the system takes it from nobody who lives."""
        return self._lock is not None

    def is_sure(self) -> bool:
        """The same."""
        return self._lock is not None

    def release(self) -> None:
        """Unlock the home."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take(self, path: Path) -> bool:
        if self._lock is not None:
            return True
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            close_home(self._home)
            self._lock = _locked(path)
            if self._lock is not None and path != self._path:
                path.replace(self._path)
        except OSError as error:
            raise Unavailable(
                f"{self._home} cannot be used: {error.strerror or error}", fix="set STOKER_HOME to a folder of yours"
            ) from None
        return self._lock is not None


class DatabaseLead:
    """Implements Lead for a PostgreSQL database: a lock of a session of its own, and the home's for who looks for a server there.

    PostgreSQL ends that session if nothing is heard of it for SILENT_SECONDS, and the lock goes with it: a server that hangs
    leads no more. One that wakes up again, or whose machine does, knows by its own clock that it cannot be sure.
    """

    def __init__(self, url: str, home: Path) -> None:
        self._database = open_database(url)
        self._session: Connection | None = None
        self._home = HomeLead(home)
        self._heard_at = float("-inf")
        self._keeps_home = False  # until the database has told who leads

    def take_home(self) -> bool:
        """Lock the home, and keep it until the database can be asked."""
        self._keeps_home = self._home.take()
        return self._keeps_home

    def take(self, *, over: bool = False) -> bool:
        """Try to take it. Raises Unavailable if the database cannot be reached."""
        now = boot_seconds()
        try:
            if self._session is None:
                self._session = self._database.engine.connect()
                self._session.exec_driver_sql(f"SET idle_session_timeout = '{SILENT_SECONDS}s'")
            if not self._session.exec_driver_sql(f"SELECT pg_try_advisory_lock({LEAD_LOCK})").scalar():
                self._keeps_home = False
                self._home.release()
                return False
            if not self._home.take() and not (over and self._home.take_anew()):
                self.release()
                return False
        except sa.exc.SQLAlchemyError as error:
            self._end_session()
            if not self._keeps_home:
                self._home.release()
            raise problem_of(self._database, "opened", error) from error
        except Unavailable:
            self.release()
            raise
        self._heard_at, self._keeps_home = now, False
        return True

    def confirm(self) -> bool:
        """Ask the session that has it."""
        now = boot_seconds()
        try:
            if self._session is None or not self._home.confirm():
                return False
            self._session.exec_driver_sql("SELECT 1")
        except sa.exc.SQLAlchemyError:
            return False
        self._heard_at = now
        return True

    def is_sure(self) -> bool:
        """Whether we have it, and have heard of it just now."""
        return self._home.is_sure() and boot_seconds() - self._heard_at < SURE_SECONDS

    def release(self) -> None:
        """End the session; the lock goes with it."""
        self._keeps_home = False
        self._home.release()
        self._end_session()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.invalidate()  # it is not to go back among those that are used again
            session.close()
        self._database.engine.dispose()


def lead_of(home: Path, database: str) -> Lead:
    """The lock of this home, or of the database that it uses."""
    return DatabaseLead(database, home) if database else HomeLead(home)


def _locked(path: Path) -> IO[str] | None:
    """The file, locked; None while another has it."""
    lock = open(path, "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    except OSError:
        lock.close()
        raise
    return lock
