"""A plain command as a job: what is run for a script, what such a job is called, and the environment that goes with it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .environment import find_environment
from .program_check import check_command

if TYPE_CHECKING:
    from .client import Client
    from .uploads import Progress

_RUNNERS = {".py": "python", ".sh": "sh"}


def command_of(program: str | Sequence[str], args: Sequence[object] = ()) -> list[str]:
    """The command of a program: a script by its runner, `train.py` → `python train.py`; anything else as it stands."""
    words = [program] if isinstance(program, str) else [str(word) for word in program]
    runner = _RUNNERS.get(Path(words[0]).suffix) if len(words) == 1 else None
    return [*([runner] if runner else []), *words, *map(str, args)]


def name_of(command: Sequence[str]) -> str:
    """A short name from the command: `python train.py` → train_3f2a."""
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    stem = re.sub(r"[^A-Za-z0-9_]", "_", Path(script).stem).strip("_")[:40] or "job"
    return f"{stem if stem[0].isalpha() else 'job_' + stem}_{secrets.token_hex(2)}"


def environment_of(
    client: Client,
    command: Sequence[str],
    folder: Path,
    progress: Progress,
    *,
    python: str,
    requirements: Sequence[Path],
    packages: Sequence[str],
) -> dict[str, object]:
    """What a request says of the environment that a command is run in; `progress` hears which and why.

    Raises BadSpec for a command that could not start, and for packages that cannot be meant.
    """
    found = find_environment(
        command, folder, python=python, requirements=requirements, packages=packages, runs_here=client.runs_here
    )
    if os.path.isdir(folder):  # else who packs it says so
        check_command(command, folder, is_own_python=not found.python and client.is_on_this_machine)
    if found.why:
        progress.begins(f"environment: {found.why}")
    return found.fields()
