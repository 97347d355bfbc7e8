"""A wheel that holds nothing but requirements: so a training job of the v1 API, which names archives alone, brings them."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from stoker.core.errors import BadSpec, Violation
from stoker.core.requirements import problem_of

from .environment import lines_of

_NAME = "stoker_requirements"
_WHEEL = "Wheel-Version: 1.0\nGenerator: stoker\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def requirements_of(
    package_path: Path | None, files: Sequence[Path], packages: Sequence[str]
) -> tuple[tuple[str, ...], str]:
    """The requirements of a training job, and what they come from, for people.

    files: those of `--requirements`; without one the requirements.txt beside the trainer package, unless a setup.py there says
    what it needs. packages: those of `--with`. Raises BadSpec for a line that a package's metadata cannot say.
    """
    names = [", ".join(file.name for file in files)]
    lines = [line for file in files for line in _checked(lines_of(file), file.name)]
    beside = package_path.resolve().parent if package_path is not None else None
    if not files and beside is not None and not os.path.exists(beside / "setup.py"):
        lines, names = _unnamed(beside / "requirements.txt")
    lines += _checked(packages, "--with")
    plain = tuple(line.partition(" --hash")[0] for line in lines)
    return plain, " and ".join(filter(None, [*names, *(["--with"] if packages else [])]))


def _unnamed(file: Path) -> tuple[list[str], list[str]]:
    """The lines of a file that nobody has named, which may be there for others, and what to say of it."""
    if not os.path.isfile(file):
        return [], []
    try:
        found = list(lines_of(file))
    except BadSpec as error:
        return [], [f"{file.name} is left out: {error.violations[0].description}"]
    left_out = [line for line in found if _problem(line)]
    without = f", without {', '.join(left_out[:3])}" if left_out else ""
    return [line for line in found if line not in left_out], [file.name + without] if found else []


def _problem(line: str) -> str:
    """What keeps a line out of a package's metadata; empty: nothing."""
    if not line.strip():
        return "is not a requirement"
    return problem_of(line) or ("is an option" if line.startswith("-") else "")


def _checked(lines: Iterable[str], where: str) -> list[str]:
    found = list(lines)
    for line in found:
        if problem := _problem(line):
            raise BadSpec(
                [Violation(where, f"{line[:80]!r} {problem}; a training job takes packages of an index")],
                fix="an index is a setting of uv's (UV_INDEX_URL for the server); archives go with --packages",
            )
    return found


def make_wheel(requirements: Sequence[str], folder: Path) -> Path:
    """The wheel, in this folder. Its version is the digest of what it says, and it has no date: the same lines, the same wheel.

    Format: the Python Packaging User Guide, "Binary distribution format"; core metadata 2.1.
    """
    version = "0+" + hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:12]
    info = f"{_NAME}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requirements)
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": _WHEEL,
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    path = folder / f"{_NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path
