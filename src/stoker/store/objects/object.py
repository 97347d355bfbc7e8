"""What an object is, what it must be, and how its upload was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.errors import PreconditionFailed

from .hashes import Hashes


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one content of a file from the next."""

    size: int
    mtime_ns: int
    inode: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a client said of an object: handed back as it came, of no effect on the content."""

    content_type: str = ""
    content_encoding: str = ""
    content_disposition: str = ""
    content_language: str = ""
    cache_control: str = ""
    custom_time: str = ""
    storage_class: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object as it is now."""

    bucket: str
    name: str
    stamp: Stamp
    generation: int  # another one for every content
    metageneration: int = 1  # another one for everything that is said of this content
    updated_ns: int = 0  # when it was last said; 0: with the content
    said: Said = field(default_factory=Said)
    hashes: Hashes = field(default_factory=Hashes)

    @property
    def size(self) -> int:
        """In bytes."""
        return self.stamp.size

    @property
    def etag(self) -> str:
        """Changes with the content and with what is said of it."""
        return f"{self.generation:x}-{self.metageneration:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What an object must be, or must not be, for a request to be carried out. Generation 0: there is none."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    def check(self, found: Object | None) -> None:
        """Raise PreconditionFailed if it is not so."""
        generation = found.generation if found else 0
        metageneration = found.metageneration if found else 0
        if self.generation_match not in (None, generation):
            wanted = f"generation {self.generation_match}" if self.generation_match else "no object"
            raise PreconditionFailed(f"{wanted} was expected, and there is {_shown(found)}")
        if self.metageneration_match not in (None, metageneration):
            raise PreconditionFailed(
                f"metageneration {self.metageneration_match} was expected, and there is {_shown(found)}"
            )
        if self.is_known(found):
            raise PreconditionFailed(f"something else was expected than what is there: {_shown(found)}")

    def is_known(self, found: Object | None) -> bool:
        """Whether it is still what the client says that it has: to a reader, no failure but good news."""
        return self.generation_not_match == (found.generation if found else 0) or (
            found is not None and self.metageneration_not_match == found.metageneration
        )


def _shown(found: Object | None) -> str:
    return f"generation {found.generation}, metageneration {found.metageneration}" if found else "no object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An upload as it was asked for."""

    name: str
    said: Said = field(default_factory=Said)
    hashes: Hashes = field(default_factory=Hashes)  # what it must have
    conditions: Conditions = field(default_factory=Conditions)
