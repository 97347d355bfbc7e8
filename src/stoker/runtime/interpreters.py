"""Where programs and Python interpreters lie: every link on the way to one, and what belongs to it beside its `bin`."""

from __future__ import annotations

import os
from typing import Iterator, List, Optional


def links_to(program: str) -> Iterator[str]:
    """A program and what it is a link to, link by link."""
    path = which(program, os.environ.get("PATH", os.defpath)) or ""
    while path:
        path = os.path.abspath(path)
        yield path
        path = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else ""


def homes_of(python: str) -> Iterator[str]:
    """Where an interpreter lies: every link on the way to it, and what belongs to it beside its `bin`."""
    for path in links_to(python):
        bin_folder = os.path.dirname(path)
        yield bin_folder
        home = os.path.dirname(bin_folder)
        if os.path.basename(home) == ".local":  # much more than programs is in there
            yield os.path.join(home, "lib")
        elif os.path.basename(bin_folder) == "bin" and not (os.path.islink(path) and not _is_environment(home)):
            yield home


def is_interpreter(path: str) -> bool:
    """Whether a program is Python or of an environment of it, by what lies beside it: that it needs as well."""
    bin_folder, name = os.path.split(path)
    home = os.path.dirname(bin_folder)
    has_library = any(entry.name.startswith("python3") for entry in entries(os.path.join(home, "lib")))
    return os.path.basename(bin_folder) == "bin" and (
        _is_environment(home) or (has_library and name.startswith("python"))
    )


def which(program: str, path: str) -> Optional[str]:
    """Where a program lies, as a shell finds it. To import shutil for that would cost some milliseconds."""
    places = [program] if os.sep in program else [os.path.join(folder, program) for folder in path.split(os.pathsep)]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def entries(folder: str) -> "List[os.DirEntry[str]]":
    """What is in a folder; nothing, if it cannot be read."""
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg")) or os.path.isdir(os.path.join(folder, "conda-meta"))
