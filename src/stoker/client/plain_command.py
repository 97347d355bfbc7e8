"""A plain command as a job: what is run for a script, and what such a job is called."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path

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
