"""Whether a program is there at all, before it is sent: its script, its module, its runner, and whether Python can read it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from stoker.core.errors import BadSpec, Violation
from stoker.hardware.faults import closest, either

from .packaging import SKIPPED_FOLDERS

_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_RUNNERS = (
    "python",
    "python3",
    "bash",
    "sh",
    "torchrun",
    "accelerate",
    "deepspeed",
    "mpirun",
    "uv",
    "make",
    "timeout",
    "env",
)
_MOST_FILES = 5_000


def check_command(command: Sequence[str], folder: Path, *, is_own_python: bool) -> None:
    """Raise BadSpec for a command that could not start in a copy of this folder, with the nearest that could.

    `is_own_python`: it runs on the Python that runs us, so what that cannot parse, that one cannot either.
    """
    runner, *rest = command
    if _PYTHON.fullmatch(runner):
        _check_python(rest, folder, is_own_python=is_own_python)
    elif os.path.basename(runner) in _SHELLS and rest and not rest[0].startswith("-"):
        _check_file(rest[0], folder, (".sh", ".bash"))
    elif os.sep in runner:
        _check_file(runner, folder, ())
    elif runner in _RUNNERS:
        return  # it may be beside the Python that it will run on, and on no path of ours
    elif shutil.which(runner) is None and (near := closest(runner, _RUNNERS, limit=1)):
        raise BadSpec([Violation("command", f"there is no program {runner[:80]!r}; did you mean {near[0]}?")])


def check_module(module: str, package: Path) -> None:
    """Raise BadSpec for a module that is not in its package's folder (`--package-path`), with the nearest that is."""
    package = package.resolve()
    top = module.partition(".")[0]
    if not module or (
        top != package.name and (_is_module(package.parent, [top]) or (package.parent / "setup.py").exists())
    ):
        return  # another one, that comes with the same setup.py
    if _is_module(package.parent, module.split(".")):
        return
    known = [f"{package.name}.{name}" for name in _modules(package)]
    near = closest(module, known, limit=1)
    hint = f"; did you mean {either(near)}?" if near else f"; there are {either(known[:5])}" if known else ""
    raise BadSpec([Violation("--module-name", f"{package} has no module {module[:80]!r}{hint}")])


def _check_python(words: Sequence[str], folder: Path, *, is_own_python: bool) -> None:
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-c", "-m", "-"):
        rest = rest[2 if rest[0] in _WITH_VALUE else 1 :]
    if not rest or rest[0] in ("-c", "-"):
        return
    if rest[0] == "-m":
        if rest[1:]:
            _check_module_of_folder(rest[1], folder)
        return
    _check_file(rest[0], folder, (".py",))
    script = folder / rest[0]
    if is_own_python and rest[0].endswith(".py") and os.path.isfile(script):
        _check_syntax(script, rest[0])


def _check_module_of_folder(module: str, folder: Path) -> None:
    """A module that begins with a package of the folder has to be there; any other may be installed."""
    top = module.partition(".")[0]
    package = folder / top
    if "." in module and os.path.isdir(package) and not _is_module(folder, module.split(".")):
        known = [f"{top}.{name}" for name in _modules(package)]
        near = closest(module, known, limit=1)
        hint = f"; did you mean {either(near)}?" if near else ""
        raise BadSpec([Violation("command", f"there is no module {module[:80]!r} in {folder.absolute()}{hint}")])


def _check_file(name: str, folder: Path, endings: tuple[str, ...]) -> None:
    if os.path.isabs(name) or os.path.exists(folder / name):
        return  # a whole path may be one of the server's machine
    near = closest(name, _files(folder, endings), limit=1)
    hint = f"; did you mean {either(near)}?" if near else ""
    raise BadSpec([Violation("command", f"there is no {name[:80]} in {folder.absolute()}{hint}")])


def _check_syntax(script: Path, name: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program, which says them itself
            compile(script.read_bytes(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line, text = getattr(error, "lineno", None), (getattr(error, "text", None) or "").strip()
        where = f" line {line}" if line else ""
        what = f"{getattr(error, 'msg', error)}{f': {text[:100]}' if text else ''}"
        version = ".".join(map(str, sys.version_info[:2]))
        raise BadSpec([Violation(f"{name}{where}", f"Python {version} cannot read it: {what}")]) from None
    except (OSError, RecursionError, MemoryError):
        return  # who packs it says so


def _is_module(root: Path, parts: Sequence[str]) -> bool:
    """Whether Python finds it below this folder. Compiled ones count by the beginning of their names."""
    base = root.joinpath(*parts)
    compiled = base.parent.glob(f"{parts[-1]}.*.so") if all(part.isidentifier() for part in parts) else ()
    return os.path.isdir(base) or os.path.isfile(base.with_name(base.name + ".py")) or any(compiled)


def _modules(package: Path) -> list[str]:
    """The modules of a package, by their names below it."""
    names = [name.removesuffix(".py").replace("/", ".") for name in _files(package, (".py",))]
    return [name for name in names if name.rpartition(".")[2] not in ("__init__", "__main__")]


def _files(folder: Path, endings: tuple[str, ...]) -> list[str]:
    """The files of a folder that may be meant."""
    return sorted(name for name in _some_files(folder) if not endings or name.endswith(endings))


def _some_files(folder: Path) -> Iterable[str]:
    count = 0
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")]
        for name in files:
            count += 1
            yield os.path.relpath(os.path.join(base, name), folder)
        if count > _MOST_FILES:
            return
