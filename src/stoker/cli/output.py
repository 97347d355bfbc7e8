"""Where the output goes: into a file or a pipe that may be full, or closed by its reader."""

from __future__ import annotations

import os
import sys
from traceback import walk_tb

import click


def failure(problem: Exception) -> OSError | None:
    """The problem, if it is that the output could not be written, and no other file: all is said through `click.echo`."""
    *_, (innermost, _) = walk_tb(problem.__traceback__)
    return problem if isinstance(problem, OSError) and innermost.f_code is click.echo.__code__ else None


def drop() -> None:
    """Let what could not be written go nowhere, so that nobody stumbles over it again when the process ends."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed from the beginning is None
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
