"""What the processes of a job do, as it is asked for and shown."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .words import says


class Asked(TypedDict):
    """A look into a job that was asked for."""

    id: Annotated[str, says("By which what was found is asked for.", "1795190400-3f2a1b")]
    replicas: Annotated[list[str], says("Those that run, and will tell.", ["chief-0", "worker-0"])]


class HotLine(TypedDict):
    """A line of a program in which it was found."""

    line: Annotated[str, says("The function, the file and the line.", "forward (model.py:34)")]
    samples: Annotated[int, says("So often.", 155)]


class Process(TypedDict):
    """One process of a replica."""

    process: Annotated[int, says("Its id on its machine.", 4711)]
    command: Annotated[str, says("What it was started as.", "python train.py")]
    stack: Annotated[list[str], says("What its threads did at once, as py-spy tells.", [])]
    samples: Annotated[int, says("How often it was looked at; 0: it was not, or is no Python.", 250)]
    hot_lines: Annotated[list[HotLine], says("Where it was found then, the most frequent first.", [])]


class ReplicaProfile(TypedDict):
    """What was found of one replica."""

    replica: Annotated[str, says("Which one.", "chief-0")]
    is_over: Annotated[bool, says("Whether that is all.", True)]
    has_spy: Annotated[bool, says("Whether py-spy is installed there; without it stacks are the kernel's.", True)]
    processes: Annotated[list[Process], says("Its processes.", [])]
    trace: Annotated[
        str, says("Where its framework has written a trace; empty: it has not.", "/data/j/logs/traces/1-chief-0")
    ]
    trace_error: Annotated[str, says("Why it could not.", "")]


class Profile(TypedDict):
    """What was found of a job's processes."""

    id: Annotated[str, says("As it was asked for.", "1795190400-3f2a1b")]
    replicas: Annotated[list[ReplicaProfile], says("Those that have told something so far.", [])]
