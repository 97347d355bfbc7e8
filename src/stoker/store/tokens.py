"""Tokens of users: who they stand for, what they open, until when. Of a token itself only its hash is kept.

A token is 256 random bits, made here and never chosen, so that a plain SHA-256 of it cannot be guessed back. They lie in a file
of their own: they are no job's state, and a revoked one must not come back with a job's story.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stoker.clock import Clock
from stoker.core.errors import AlreadyExists, BadSpec, NotFound, Unavailable, Violation
from stoker.core.ids import BUCKET_NAME, PROJECT_NAME

from .files import sync_folder, write_errors

USER_NAME = re.compile(r"[a-z][a-z0-9._-]{0,62}")
MOST_DAYS = 3650
MOST_TOKENS = 10_000
_LONGEST_SHOWN = 200
_USE_IS_KEPT_SECONDS = 300.0
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token. No projects: all of them, and every bucket."""

    name: str  # of the user whom it stands for
    sha256: str
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    is_admin: bool = False
    is_for_metrics: bool = False  # it opens /metrics alone
    projects: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()


def digest(token: str) -> str:
    """The hash by which a token is known."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenBook:
    """The tokens of users. Safe to call from any thread.

    The file is what counts: where several servers share a home, the one that leads writes it, and all see at once what it wrote.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        writes: Callable[[], bool] = lambda: True,
        reserved: Collection[str] = (),
    ) -> None:
        """`writes`: whether this server may write now. `reserved`: names that no token may stand for.

        Raises Unavailable for a file that cannot be read: a server that forgot who was revoked must not start.
        """
        self._path = path
        self._clock = clock
        self._writes = writes
        self._reserved = frozenset(reserved)
        self._lock = threading.Lock()
        self._by_hash: dict[str, Token] = {}
        self._stamp: tuple[int, int, int] | None = None  # of the file, as it was last read or written
        self._written_at = 0.0
        self._look()

    def create(
        self,
        name: str,
        *,
        days: float | None = None,
        is_admin: bool = False,
        is_for_metrics: bool = False,
        projects: tuple[str, ...] = (),
        buckets: tuple[str, ...] = (),
    ) -> tuple[str, Token]:
        """Make a token: its text, which nobody can tell a second time, and what is kept. Raises BadSpec or AlreadyExists."""
        _check(name, days, is_admin, projects, buckets)
        if is_for_metrics and (is_admin or projects or buckets):
            problem = "such a token opens /metrics alone: leave admin, projects and buckets out"
            raise BadSpec([Violation("metrics", problem)])
        if name in self._reserved:
            problem = f"{name!r} is whom the server itself stands for; its jobs would be theirs"
            raise BadSpec([Violation("name", problem)], fix="choose another name")
        text, now = "stk_" + secrets.token_urlsafe(32), self._clock.now()
        made = Token(
            name=name,
            sha256=digest(text),
            created_at=now,
            expires_at=None if days is None else now + days * _DAY_SECONDS,
            is_admin=is_admin,
            is_for_metrics=is_for_metrics,
            projects=projects,
            buckets=buckets,
        )
        with self._lock:
            self._look()
            if any(token.name == name for token in self._by_hash.values()):
                raise AlreadyExists(f"{name} has a token already", fix=f"revoke it first: stoker tokens revoke {name}")
            if len(self._by_hash) >= MOST_TOKENS:
                raise AlreadyExists(f"there are {MOST_TOKENS} tokens already", fix="revoke some that are not used")
            self._write({**self._by_hash, made.sha256: made})
        return text, made

    def revoke(self, name: str) -> None:
        """Make a token worth nothing, at once and for good. Raises NotFound."""
        with self._lock:
            self._look()
            kept = {key: token for key, token in self._by_hash.items() if token.name != name}
            if len(kept) == len(self._by_hash):
                raise NotFound(f"no token of {name[:80]!r}", fix="stoker tokens list shows them")
            self._write(kept)

    def tokens(self) -> list[Token]:
        """All of them, by name; those that have expired, too."""
        with self._lock:
            self._look()
            return sorted(self._by_hash.values(), key=lambda token: token.name)

    def find(self, shown: str) -> Token | None:
        """The token that was shown, unless it has expired. Looked up by its hash, of which nobody can choose a part."""
        if len(shown) > _LONGEST_SHOWN:
            return None
        key = digest(shown)
        with self._lock:
            self._look()
            found, now = self._by_hash.get(key), self._clock.now()
        if found is None or not hmac.compare_digest(found.sha256, key):
            return None
        if found.expires_at is not None and now >= found.expires_at:
            return None
        self._note_use(found, now)
        return found

    def _note_use(self, token: Token, now: float) -> None:
        """Remember when it was used; on disk now and then, since this is asked with every request."""
        with self._lock:
            if token.sha256 not in self._by_hash:
                return  # it was revoked meanwhile
            self._by_hash[token.sha256] = replace(token, last_used_at=now)
            if self._writes() and now - self._written_at >= _USE_IS_KEPT_SECONDS:
                self._written_at = now
                try:
                    self._write(self._by_hash)
                except Unavailable:
                    pass  # a full disk keeps nobody out

    def _look(self) -> None:
        """Read the file again if somebody has written it. When tokens were last used here is remembered."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            self._path.chmod(0o600)
            rows = json.loads(self._path.read_text())["tokens"]
            found = {token.sha256: token for token in (Token(**_with_tuples(row)) for row in rows)}
        except FileNotFoundError:
            stamp, found = None, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"{self._path} cannot be read: {getattr(error, 'strerror', None) or error}"
            raise Unavailable(
                problem, fix="put it right from a backup, or remove it: then every user needs a new token"
            ) from None
        for key, token in found.items():
            known = self._by_hash.get(key)
            if known is not None and (known.last_used_at or 0.0) > (token.last_used_at or 0.0):
                found[key] = replace(token, last_used_at=known.last_used_at)
        self._by_hash, self._stamp = found, stamp

    def _write(self, tokens: dict[str, Token]) -> None:
        """Whole, durable, for this user alone; then it is so."""
        part = self._path.with_suffix(".tmp")
        text = json.dumps({"tokens": [asdict(token) for token in tokens.values()]}, indent=1)
        with write_errors(str(self._path)):
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self._path)
            sync_folder(self._path.parent)
            stat = self._path.stat()
        self._by_hash, self._stamp = dict(tokens), (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "projects": tuple(row["projects"]), "buckets": tuple(row["buckets"])}


def _check(name: str, days: float | None, is_admin: bool, projects: tuple[str, ...], buckets: tuple[str, ...]) -> None:
    violations = []
    if not USER_NAME.fullmatch(name):
        problem = (
            f"{name[:80]!r} cannot be a user's name: a letter, then small letters, digits, '.', '_', '-'; at most 63"
        )
        violations.append(Violation("name", problem))
    if days is not None and not 0 < days <= MOST_DAYS:
        violations.append(Violation("days", f"{days:g}: more than 0, at most {MOST_DAYS}"))
    for project in projects:
        if not PROJECT_NAME.fullmatch(project):
            violations.append(Violation("projects", f"{project[:80]!r} cannot be a project's id"))
    for bucket in buckets:
        if not BUCKET_NAME.fullmatch(bucket):
            violations.append(Violation("buckets", f"{bucket[:80]!r} cannot be a bucket's name"))
    if is_admin and (projects or buckets):
        violations.append(Violation("projects", "an admin may everything: leave projects and buckets out"))
    if buckets and not projects:
        violations.append(Violation("buckets", "without projects every bucket is open: name projects as well"))
    if violations:
        raise BadSpec(violations)
