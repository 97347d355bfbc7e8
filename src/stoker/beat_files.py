"""The files beside a replica's beat, by which its program (frameworks/) and its supervisor (runtime/) tell each other things."""

from __future__ import annotations

import os
from typing import Mapping

VARIABLE = "STOKER_BEAT_FILE"
"""Names the beat, in the program's environment."""

IN_STEP = "in_step"
"""It is there if the program trains in step with others, and so cannot be started again alone."""

SEEN = "training.json"
"""What the first step has shown: whether the program trains as was asked for."""

STEPS = "steps.jsonl"
"""Windows of steps, one JSON object a line."""

TRACE_REQUEST, TRACE_ANSWER = "trace.json", "trace-done.json"
"""A trace that the supervisor asks for: `{"id", "seconds"}`, answered by `{"id"}` with a `path` or an `error`."""


def folder_of(environment: Mapping[str, str]) -> str:
    """The folder in which they are; empty: the program runs outside of a job."""
    beat_file = environment.get(VARIABLE, "")
    return os.path.dirname(beat_file) if beat_file else ""
