"""What the streams tell: one JSON object a line."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from .jobs import STATES, Reason
from .words import Time, says


class LogEvent(TypedDict):
    """A line of a replica's output."""

    kind: Literal["log"]
    sequence: Annotated[int, says("Its position in the job's output; grows, with gaps. Go on `after` it.", 1387)]
    time: Annotated[float, says(f"When it was printed. {Time}", 1795190402.125)]
    attempt: Annotated[str, says("The attempt's id.", "local/train_3f2a.1")]
    replica: Annotated[str, says("Role and index.", "worker-0")]
    stream: Annotated[str, says("out, err, or service: what Stoker says of it.", "out")]
    text: Annotated[str, says("The line without its end.", "epoch 1/5 · loss 2.1794")]


class StateEvent(TypedDict):
    """What a user sees of a job has changed."""

    kind: Literal["state"]
    state: Annotated[str, says(STATES, "RUNNING")]
    attempt: Annotated[int, says("The number of its newest attempt; 0 for none yet.", 1)]
    replicas: Annotated[int, says("How many processes it has.", 13)]
    up: NotRequired[Annotated[int, says("How many of them run or are done.", 13)]]
    reason: NotRequired[Reason]
    message: NotRequired[Annotated[str, says("Why it is queued again.", "worker-0 was ended by signal 9")]]


class EndEvent(TypedDict):
    """The job has ended, and all its lines were told. Always the last."""

    kind: Literal["end"]
    state: Annotated[str, says("SUCCEEDED, FAILED or CANCELLED.", "SUCCEEDED")]
    exit_code: Annotated[int, says("0, or the code of the replica that failed first, or 1.", 0)]
    message: Annotated[str, says("Why it did not succeed.", "")]
    submitted_at: Annotated[float, says(Time, 1795190400.0)]
    started_at: Annotated[float | None, says(f"When it first ran. {Time}", 1795190401.5)]
    ended_at: Annotated[float | None, says(Time, 1795190460.25)]
