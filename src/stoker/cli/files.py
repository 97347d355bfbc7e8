"""Files that a command writes: it is known beforehand that they can be, and a reader never sees half of one."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.core.errors import BadSpec, Violation


def check_writable(path: Path | None, option: str) -> None:
    """Raise BadSpec for a path to which no file can be written."""
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        problem = f"{path} is a folder"
    elif not folder.is_dir():
        problem = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK) or (path.exists() and not path.is_file()):
        problem = f"{path} cannot be written"
    else:
        return
    raise BadSpec([Violation(option, problem)], fix="give the path of a file in a folder that you may write to")


def write(path: Path, text: str) -> None:
    """Write a file whole, or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", errors="replace")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadSpec([Violation(str(path), f"cannot be written: {error.strerror}")]) from None
