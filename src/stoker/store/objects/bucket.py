"""What a bucket can do, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from .listing import Wanted
from .object import Asked, Conditions, Object, Said
from .parts import LocalPart, Part


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a listing, and where the next one goes on; empty: there is none."""

    objects: Sequence[Object]
    prefixes: Sequence[str]
    next: str = ""


class Bucket(Protocol):
    """A bucket. Its methods raise BadSpec for names that none of its objects can have."""

    @property
    def name(self) -> str: ...
    def changed_ns(self) -> int: ...
    def stat(self, name: str, *, hash_seconds: float = 0.0) -> Object: ...
    def find(self, name: str) -> Object | None: ...
    def read(self, name: str, *, hash_seconds: float = 0.0) -> AbstractContextManager[tuple[Object, IO[bytes]]]: ...
    def list(self, wanted: Wanted, *, hash_seconds: float = 0.0) -> Listing: ...
    def write(self, name: str) -> AbstractContextManager[Part]: ...
    def begin(self, name: str, spool: Path) -> LocalPart: ...
    def commit(self, part: Part, asked: Asked) -> Object: ...
    def say(self, name: str, change: Callable[[Said], Said], conditions: Conditions) -> Object: ...
    def delete(self, name: str, conditions: Conditions) -> None: ...
    def move(self, name: str, to: str, *, source: Conditions, target: Conditions) -> Object: ...
