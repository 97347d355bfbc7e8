"""What a supervisor's status (runtime/folder.py) says of its replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.core.job import Replica
from stoker.core.states import ReplicaState, Standing

from .base import Seen

BAD_STATUS = (ValueError, TypeError, OverflowError)
"""What reading a status raises into which somebody else has written."""


def seen_of(replica: Replica, status: Mapping[str, Any]) -> Seen:
    """What is seen of a replica by its status. Raises one of BAD_STATUS for one that no supervisor wrote."""
    code = status.get("exit_code")
    return Seen(
        role=replica.role,
        index=replica.index,
        state=ReplicaState(status.get("seen", ReplicaState.NOTHING)),
        exit_code=None if code is None else int(code),
        message=text_of(status.get("message", "")),
        addresses=tuple(map(text_of, status.get("addresses", ()))),
        out_of_memory=bool(status.get("out_of_memory")),
        restarts=int(status.get("restarts", 0)),
        sign=text_of(status.get("sign", "")),
        evidence=text_of(status.get("evidence", "")),
        place=text_of(status.get("place", "")),
        alike=int(status.get("alike", 0)),
        standing=Standing(status.get("standing", "")),
        last_line=int(status.get("last_line", 0)),
    )


def text_of(value: object) -> str:
    """A text that can be stored, whatever was in the file."""
    return str(value).encode("utf-8", errors="replace").decode()
