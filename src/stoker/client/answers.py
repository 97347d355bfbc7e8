"""What the SDK hands out: frozen values, with units in their names. What a newer server tells beyond them is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a replica's output. `print(line)` prints its text."""

    time: float  # when it was printed, in seconds since 1970, UTC
    replica: str  # role and index: worker-0
    stream: str  # out, err, or service: what Stoker says of it
    text: str  # without its end
    sequence: int  # its position: grows, with gaps; logs(after=…) goes on after it

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a job took so far. The three times add up to the time from its submission to its end, or to now."""

    state: str
    queued_seconds: float  # without machines, also between two attempts
    preparing_seconds: float  # with machines, until every replica ran
    running_seconds: float  # from then on, until the machines were free again
    attempts: int  # how often the whole job was tried
    restarts: int  # how often single replicas were started again in place
    machine_hours: float  # replicas × hours for which they held machines
    accelerator_hours: float
    cost_usd: float | None  # of these machines on Google Cloud, on demand; None where it is not known
    price_as_of: str | None  # the date of the oldest price in it, or its catalog
    cost_notes: tuple[str, ...] = ()  # why there is no cost, or what to know about it


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """When something will likely be, in seconds since 1970: one in ten is earlier than `low`, half, nine in ten before `high`.

    None: beyond what was looked at.
    """

    low: float | None
    middle: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sooner:
    """Another way to ask for the same, which would start it sooner."""

    text: str  # such as: with 2 workers instead of 4
    starts: Moments
    seconds: float | None  # by how much; None where the one or the other is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What an attempt died of. `print(diagnosis)` prints that."""

    code: str  # for programs: CUDA_OOM, MISSING_MODULE, …; docs/failures.md lists them
    title: str  # what happened, for people
    replica: str  # the one whose failure explains the others'; empty: none is to blame
    node: str  # where that one was
    evidence: str  # the line that shows it
    fix: str  # what to do
    blame: str  # program, node, hardware, either or nobody
    again: str  # whether another try could help: anywhere, elsewhere or never
    decision: str  # what was decided

    def __str__(self) -> str:
        where = f"{self.replica} on {self.node}: " if self.replica else ""
        lines = [f"{where}{self.title} ({self.code})", self.evidence, self.decision, self.fix and f"→ {self.fix}"]
        return "\n  ".join(line for line in lines if line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job waits, or how it ended. `print(explanation)` prints that."""

    state: str
    code: str  # why it waits, for programs: NO_ROOM, BEHIND, …; empty if it does not
    text: str  # the same in words, or how it ended
    action: str  # what would help
    held_by: tuple[str, ...] = ()  # the jobs that hold what it could use, as PROJECT/NAME
    position: int | None = None  # in the queue, 1 is next; None if it does not wait
    not_before: float | None = None  # when it may be tried again after a failure, in seconds since 1970
    queue: str = ""  # the queue that it is in
    ahead: tuple[str, ...] = ()  # who is before it, next first, as PROJECT/NAME
    preemptions: int = 0  # how often it was stopped for others
    starts: Moments | None = None  # when it will likely start; None if it does not wait, or too many ask just now
    sooner: tuple[Sooner, ...] = ()  # what would start it sooner
    running_since: float | None = None  # when its live attempt got its machines, in seconds since 1970
    ends: Moments | None = None  # when it will likely end; None if it does not run
    diagnosis: Diagnosis | None = None  # what its newest attempt died of; None if it did not

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Explanation:
        """From an answer of the server."""
        starts, ends, died_of = body.get("starts"), body.get("ends"), body.get("diagnosis")
        sooner = tuple(
            Sooner(text=way["text"], starts=read(Moments, way["starts"]["at"]), seconds=way["sooner_seconds"])
            for way in body.get("what_if", ())
        )
        flat = {key: value for key, value in body.items() if key not in ("starts", "ends", "sooner", "diagnosis")}
        return replace(
            read(cls, flat),
            starts=read(Moments, starts["at"]) if starts else None,
            ends=read(Moments, ends) if ends else None,
            diagnosis=read(Diagnosis, died_of) if died_of else None,
            sooner=sooner,
        )

    def __str__(self) -> str:
        return f"{self.state}: {self.text}".rstrip(": ") + (f" → {self.action}" if self.action else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file below a job's directory."""

    name: str  # its path below the directory
    uri: str
    size_bytes: int
    modified_at: float | None  # in seconds since 1970; None where a cloud does not tell


def read(kind: type[Answer], body: Mapping[str, Any]) -> Answer:
    """An answer of the server as one of these values; lists become tuples."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in body.items() if k in known})
