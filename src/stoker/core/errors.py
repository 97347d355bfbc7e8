"""Every error Stoker raises on purpose, as one tree. `api/errors.py` maps `code` to an HTTP status in one table.

StokerError
 ├ NotFound            not_found            no such job, node, file
 ├ AlreadyExists       already_exists       the id is taken
 ├ BadSpec             bad_spec             what was asked is wrong: carries `violations`
 ├ NotReady            not_ready            well formed, but cannot be done as things are: carries `violations`
 ├ IllegalMove         illegal_move         a state machine was asked for a move it does not have
 ├ Conflict            conflict             somebody else changed it first
 ├ PreconditionFailed  precondition_failed  an object is not, or no longer, what the request expects
 ├ Unauthenticated     unauthenticated      no token, or a wrong one
 ├ Forbidden           forbidden            a good token for something else
 ├ TooMany             too_many             more of them than a limit allows, or faster
 ├ TooLarge            too_large            the request is over a limit
 ├ LengthRequired      length_required      a body whose length nobody said
 ├ BadRange            bad_range            bytes that a file does not have
 ├ UnsupportedType     unsupported_type     a body of another type than JSON
 ├ Unimplemented       unimplemented        in the contract, not in this Stoker
 ├ Unavailable         unavailable          the server, or something it needs, cannot be reached now
 │  ├ NotYet           unavailable          it may pass, and is tried again: no room on a disk, a database that is away
 │  └ Deposed          unavailable          another server leads now
 └ EngineError         engine_error         an engine could not do what it was told
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with a request: where, and a sentence that says what and what to do."""

    field: str
    description: str


class StokerError(Exception):
    """Something went wrong in Stoker."""

    code = "internal"

    def __init__(self, message: str = "", *, fix: str = "") -> None:
        self.message = message or (self.__doc__ or "").splitlines()[0]
        self.fix = fix
        super().__init__(self.message)


class NotFound(StokerError):
    """No such thing."""

    code = "not_found"


class AlreadyExists(StokerError):
    """The id is taken."""

    code = "already_exists"


class _Refused(StokerError):
    """A request that is refused, with every reason at once."""

    def __init__(self, violations: Sequence[Violation], *, fix: str = "") -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in self.violations), fix=fix)


class BadSpec(_Refused):
    """The request is wrong."""

    code = "bad_spec"


class NotReady(_Refused):
    """The request is well formed, but cannot be carried out as things are."""

    code = "not_ready"


class IllegalMove(StokerError):
    """A state was asked to change in a way that its table does not have."""

    code = "illegal_move"


class Conflict(StokerError):
    """Somebody else changed it first; read it again and retry."""

    code = "conflict"


class PreconditionFailed(StokerError):
    """It is not, or no longer, what the request expects it to be; read it again and decide anew."""

    code = "precondition_failed"


class Unauthenticated(StokerError):
    """No token was given, or one that this server does not know."""

    code = "unauthenticated"


class Forbidden(StokerError):
    """The token is good, but not for this."""

    code = "forbidden"


class TooMany(StokerError):
    """There are too many of these, or they come too fast."""

    code = "too_many"

    def __init__(self, message: str = "", *, fix: str = "", retry_after_seconds: float = 0.0) -> None:
        super().__init__(message, fix=fix)
        self.retry_after_seconds = retry_after_seconds


class TooLarge(StokerError):
    """The request is over a limit."""

    code = "too_large"


class LengthRequired(StokerError):
    """The length of the body must be said, by Content-Length or by chunks."""

    code = "length_required"


class BadRange(StokerError):
    """The file does not have these bytes."""

    code = "bad_range"


class UnsupportedType(StokerError):
    """The body is of a type that is not taken here."""

    code = "unsupported_type"


class Unimplemented(StokerError):
    """This part of the API is not implemented."""

    code = "unimplemented"


class Unavailable(StokerError):
    """Something that is needed cannot be reached at the moment."""

    code = "unavailable"


class NotYet(Unavailable):
    """This cannot be done yet. It may pass by itself, and is tried again."""


class Deposed(Unavailable):
    """Another server has taken the lead; this one decides nothing any more."""


class EngineError(StokerError):
    """The engine could not do what it was told."""

    code = "engine_error"
