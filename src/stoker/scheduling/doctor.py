"""What an attempt that did not succeed died of: which replica explains the others, the cause, and whether to try again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from stoker.core.convention import Convention, replica_title
from stoker.core.ids import replica_name
from stoker.core.job import Attempt, Job, Replica
from stoker.core.node import Node, NodeState
from stoker.core.states import Cause, JobState, ReplicaState, Standing
from stoker.runtime.exits import PERMANENT, exit_class
from stoker.runtime.repeated_ends import MOST_ALIKE, is_by_signal
from stoker.runtime.signature_table import AGAIN, EFFECTS

from .failures import FAILURES, Blame, of_exit_code

COLLATERAL_SECONDS = 300.0
"""A replica that fails so soon after a peer was killed and started again failed because of it: frameworks end a member whose
peer went away with an error, TensorFlow and gloo after seconds, JAX after about 100."""

SAME_TROUBLE_SECONDS = 60.0
"""A replica that fails so soon after one that bears but an effect may be what explains it."""

_FAILED_BY_ITSELF = frozenset({Cause.REPLICA_FAILED, Cause.REPLICA_CRASHED, Cause.REPLICA_LOST, Cause.LAUNCH_FAILED})
_OF_DEVICES = ("GPU_", "CUDA_", "NO_GPU", "DRIVER_", "NO_KERNEL_IMAGE")


class Again(StrEnum):
    """Whether what failed is worth another try."""

    ANYWHERE = "anywhere"
    ELSEWHERE = "elsewhere"  # on another node
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What an attempt died of."""

    code: str  # a row of FAILURES
    again: Again
    replica: str = ""  # the one that explains the others, such as worker-0; empty: none is to blame
    node: str = ""  # where that one was
    evidence: str = ""  # the line that shows it

    @property
    def title(self) -> str:
        """What happened, for people."""
        return FAILURES[self.code].title

    @property
    def fix(self) -> str:
        """What to do; empty: nothing."""
        return FAILURES[self.code].fix

    @property
    def blame(self) -> Blame:
        """Where the trouble most likely lies."""
        return FAILURES[self.code].blame


def diagnose(job: Job, attempt: Attempt) -> Diagnosis | None:
    """What an attempt died of; None for one that lives, or has succeeded."""
    cause = attempt.cause
    if cause is None or cause is Cause.COMPLETED:
        return None
    if cause in _FAILED_BY_ITSELF:
        culprit = find_culprit(job, attempt)
        if culprit is not None:
            return _of_replica(job, attempt, culprit)
    if cause is Cause.HUNG:
        return _of_hung(attempt)
    code = str(cause) if cause in FAILURES else "ERROR"
    return Diagnosis(code=code, again=_again_after(cause), evidence=_first_line(attempt.detail))


def find_culprit(job: Job, attempt: Attempt) -> Replica | None:
    """The replica whose failure explains the others': the first, unless it bears the effect of a peer's end.

    Of those seen down at one moment, one that was lost explains the others. Once it is written which it was, it stays so.
    """
    down = [r for r in attempt.replicas if r.seen in (ReplicaState.FAILED, ReplicaState.LOST) or is_held(r)]
    told = [r for r in down if attempt.detail and failure_message(job.spec.convention, r) == attempt.detail]
    first = min(told or down, key=lambda r: (_failed_at(r), r.seen is not ReplicaState.LOST), default=None)
    if first is None or first.sign not in EFFECTS:
        return first
    until = _failed_at(first) + SAME_TROUBLE_SECONDS
    others = [r for r in down if _failed_at(r) <= until and _explains(attempt, r)]
    return min(others, key=lambda r: (not r.sign, _failed_at(r)), default=first)


def is_held(replica: Replica) -> bool:
    """Whether its program has failed, and its place is kept."""
    return replica.seen is ReplicaState.UP and replica.standing is Standing.HELD


def first_quiet(attempt: Attempt) -> Replica | None:
    """Of a gang that stands still as a whole, the one that has for longest. None: somebody goes on, or is held.

    A parameter server, an evaluator, a worker that waits for its chief may be still for as long as the others work.
    """
    up = [r for r in attempt.replicas if r.seen is ReplicaState.UP]
    if not up or any(r.standing is not Standing.QUIET for r in up):
        return None
    return min(up, key=lambda r: r.standing_at)


def failure_message(convention: Convention, replica: Replica) -> str:
    """The sentence for Job.errorMessage. Shapes: AI Platform, understanding-training-service."""
    who = f"The replica {replica_title(convention, replica.role, replica.index)}"
    if replica.seen is ReplicaState.LOST:
        return f"{who} was lost: {replica.message or 'it answers no more'}."
    if replica.exit_code is None:
        return f"{who} could not be started. {replica.message}".rstrip()
    memory = " ran out of memory and" if replica.out_of_memory else ""
    return f"{who}{memory} exited with a non-zero status of {replica.exit_code}. {replica.message}".rstrip()


def again_of(job: Job, attempt: Attempt, replica: Replica) -> Again:
    """Whether the failure of this replica is worth another try: as its sign says, else as its exit code does."""
    if job.spec.retry.ends_early and _starts_alike(replica) >= MOST_ALIKE:
        return Again.NEVER
    sign = replica.sign if _counts(job, replica.sign) else ""
    says = AGAIN.get(sign, "")
    if says:
        wants_none = not job.spec.accelerator_milli and sign.startswith(_OF_DEVICES)
        return Again.NEVER if wants_none else Again(says)
    if replica.seen is ReplicaState.LOST:
        return Again.ANYWHERE
    if replica.exit_code is None:
        return Again.NEVER
    is_own = exit_class(replica.exit_code, replica.out_of_memory) == PERMANENT and not _is_collateral(attempt, replica)
    return Again.NEVER if is_own else Again.ANYWHERE


def is_poison(job: Job, found: Diagnosis) -> bool:
    """Whether a job has failed so before on another node: then it is the program, not the node. Broken devices prove nothing.

    One that has hung before is not tried a third time, wherever it was.
    """
    if found.code == Cause.HUNG:
        return any(sign == found.code for sign, _ in job.signs)
    if found.blame is Blame.HARDWARE or found.code in EFFECTS:
        return False
    return any(sign == found.code and node != found.node for sign, node in job.signs)


def end_of(culprit: Replica | None) -> str:
    """How a replica ended, and where; empty where that is not known, or where it ended because of others."""
    if culprit is None or culprit.exit_code is None or not is_by_signal(culprit.exit_code):
        return ""
    if not culprit.place or culprit.sign in EFFECTS:
        return ""
    name = replica_name(culprit.role, culprit.index)
    return "\n".join((name, str(culprit.exit_code), culprit.sign, culprit.place))


def ends_alike(job: Job, culprit: Replica | None) -> int:
    """How many of the last attempts in a row, this one among them, ended in the same way at the same place."""
    this, alike = end_of(culprit), 1
    for end in reversed(job.ends):
        if end != this or not this:
            break
        alike += 1
    return alike


def decision(job: Job, attempt: Attempt, found: Diagnosis) -> str:
    """What was decided after an attempt, for people; empty while nothing is."""
    elsewhere = f" on another node than {found.node}" if found.again is Again.ELSEWHERE and found.node else ""
    if attempt.number < job.tries:
        return f"it was tried again{elsewhere and ', if possible' + elsewhere}"
    if job.state is JobState.QUEUED:
        return f"it is tried again{elsewhere and ', if possible' + elsewhere}"
    if job.state is not JobState.FAILED:
        return ""
    culprit = find_culprit(job, attempt)
    alike = max(ends_alike(job, culprit), _starts_alike(culprit))
    if job.spec.retry.ends_early and alike >= MOST_ALIKE:
        return f"not tried again: it ended in the same way, at the same place, {alike} times in a row"
    if found.again is Again.NEVER:
        return "not tried again: the same would happen again"
    if job.failures >= job.spec.retry.whole_job:
        return f"not tried again: {tries_of(job, attempt)}"
    if is_poison(job, found):
        is_hung = found.code == Cause.HUNG
        return f"not tried again: {'it hung before' if is_hung else 'it failed so before, on another node'}"
    return "not tried again: there is no other node that could hold it"


def tries_of(job: Job, attempt: Attempt) -> str:
    """How often a program was started in all, up to and with this attempt, for people."""
    culprit = find_culprit(job, attempt)
    starts = attempt.number + job.restarts + (culprit.restarts if culprit is not None else 0)
    if starts == attempt.number:
        return f"it was tried {starts} times" if starts > 1 else "it was tried once"
    return f"it was started {starts} times, in {attempt.number} attempt{'s' if attempt.number > 1 else ''}"


def is_infra(sign: str) -> bool:
    """Whether a sign says that the node is to blame, and not the program that ran on it."""
    found = FAILURES.get(sign)
    return found is not None and found.blame in (Blame.HARDWARE, Blame.NODE)


def may_stay(job: Job, attempt: Attempt) -> bool:
    """Whether it may be tried again where it failed, if there is nowhere else: its exit code says that it may pass."""
    culprit = find_culprit(job, attempt)
    if attempt.cause is Cause.HUNG or culprit is None or culprit.exit_code is None:
        return attempt.cause is Cause.HUNG
    return exit_class(culprit.exit_code, culprit.out_of_memory) != PERMANENT


def has_elsewhere(job: Job, nodes: Iterable[Node], blamed: str) -> bool:
    """Whether there is another node that might hold a replica of the job."""
    types = job.spec.accelerator_types
    return any(
        node.state is NodeState.UP
        and node.name != blamed
        and node.name not in job.avoid
        and node.pool == job.spec.pool
        and (not types or bool(node.devices))
        and (not types or node.accelerator in types or "ANY" in types)
        for node in nodes
    )


def _starts_alike(replica: Replica | None) -> int:
    """How many of its last starts in this attempt ended in the same way at the same place, by their own doing."""
    return 0 if replica is None or AGAIN.get(replica.sign) == Again.ANYWHERE else replica.alike


def _of_replica(job: Job, attempt: Attempt, replica: Replica) -> Diagnosis:
    place = next(p for p in attempt.placements if (p.role, p.index) == (replica.role, replica.index))
    return Diagnosis(
        code=_code_of(replica),
        again=again_of(job, attempt, replica),
        replica=replica_name(replica.role, replica.index),
        node=place.node,
        evidence=replica.evidence or _last_line(replica.message),
    )


def _of_hung(attempt: Attempt) -> Diagnosis:
    quiet = [r for r in attempt.replicas if r.standing is Standing.QUIET]
    first = min(quiet, key=lambda r: r.standing_at, default=attempt.replicas[0])
    place = next(p for p in attempt.placements if (p.role, p.index) == (first.role, first.index))
    return Diagnosis(
        code=str(Cause.HUNG),
        again=Again.ELSEWHERE,
        replica=replica_name(first.role, first.index),
        node=place.node,
        evidence=attempt.detail.partition(" hung: ")[2],
    )


def _code_of(replica: Replica) -> str:
    if replica.sign in FAILURES:
        return replica.sign
    if replica.seen is ReplicaState.LOST:
        return str(Cause.REPLICA_LOST)
    if replica.exit_code is None:
        return "CANNOT_START"
    return "HOST_OOM" if replica.out_of_memory else of_exit_code(replica.exit_code)


def _counts(job: Job, sign: str) -> bool:
    """Whether a sign decides: who has no peers suffers no effect of their end."""
    return job.spec.replicas > 1 or sign not in EFFECTS


def _explains(attempt: Attempt, replica: Replica) -> bool:
    """Whether a replica failed by itself, not by its peers' end nor because it was stopped."""
    if replica.sign:
        return replica.sign not in EFFECTS
    was_stopped = attempt.stopping_at is not None and _failed_at(replica) >= attempt.stopping_at
    return not was_stopped


def _is_collateral(attempt: Attempt, failed: Replica) -> bool:
    """Whether a peer was killed shortly before: then the error is the peer's going away, and may pass."""
    return any(
        peer.restarts and 0 <= _failed_at(failed) - peer.restarted_at <= COLLATERAL_SECONDS
        for peer in attempt.replicas
        if peer is not failed
    )


def _failed_at(replica: Replica) -> float:
    """When it failed: not when its place was given back, if that was kept."""
    return replica.standing_at if replica.standing is Standing.HELD else replica.at


def _again_after(cause: Cause) -> Again:
    if cause in (Cause.NODE_LOST, Cause.DRAINED):
        return Again.ELSEWHERE
    return Again.ANYWHERE if cause in (Cause.PREEMPTED, Cause.REPLICA_LOST) else Again.NEVER


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _last_line(message: str) -> str:
    """The last line of a traceback: the error itself."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("Termination reason:")]
    return lines[-1].strip() if lines else ""
