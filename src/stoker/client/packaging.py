"""Packs the user's program: a trainer folder as a source distribution, or a whole folder as a zip. Both are named by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, Violation

SKIPPED_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", ".venv", "venv", "env", ".env", "node_modules", "__pycache__", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", ".idea", ".vscode"),
    }
)
MOST_SOURCE_BYTES = 2 << 30
_SETUP = """from setuptools import find_packages, setup

setup(name={name!r}, version="0.0.0", packages=find_packages(include=[{name!r}, {name!r} + ".*"]), include_package_data=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed program."""

    path: Path
    sha256: str
    files: int
    size_bytes: int
    skipped: tuple[str, ...] = ()  # folders left out
    largest: tuple[tuple[str, int], ...] = ()  # the largest files, with their sizes


def pack_trainer(package: Path, target: Path) -> Packed:
    """A source distribution of a trainer package (the folder with its `__init__.py`).

    Its parent's setup.py is used if there is one, else one is made up: the folder's name, version 0.0.0 (contract 4.2).
    The user's folder is not written to. Raises BadSpec.
    """
    package = package.resolve()
    if not package.is_dir():
        raise BadSpec([Violation("--package-path", f"{package} is not a folder")])
    if not (package / "__init__.py").exists():
        raise BadSpec(
            [Violation("--package-path", f"{package} has no __init__.py, so Python does not take it for a package")],
            fix=f"touch {package / '__init__.py'}",
        )
    work = target / "package"
    own_setup = [name for name in ("setup.py", "pyproject.toml", "setup.cfg") if (package.parent / name).exists()]
    if own_setup:
        shutil.copytree(package.parent, work, ignore=_ignore, symlinks=False)
        if "setup.py" not in own_setup:
            (work / "setup.py").write_text("from setuptools import setup\n\nsetup()\n")
    else:
        shutil.copytree(package, work / package.name, ignore=_ignore, symlinks=False)
        (work / "setup.py").write_text(_SETUP.format(name=package.name))
        (work / "MANIFEST.in").write_text(f"recursive-include {package.name} *\nglobal-exclude *.py[co]\n")
    command = [sys.executable, "setup.py", "-q", "sdist", "--formats=gztar", "--dist-dir", str(target / "dist")]
    result = subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    made = sorted((target / "dist").glob("*.tar.gz"))
    if result.returncode != 0 or not made:
        last = "\n".join(result.stderr.strip().splitlines()[-5:])
        where = f"{package.parent / own_setup[0]}" if own_setup else str(package)
        raise BadSpec([Violation("--package-path", f"{where} does not build: {last}")])
    files = sum(1 for _ in walk(work))
    return Packed(path=made[0], sha256=_folder_digest(work), files=files, size_bytes=made[0].stat().st_size)


def pack_folder(folder: Path, target: Path) -> Packed:
    """A zip of a folder without its version control, virtual environments and caches. Raises BadSpec if it is too large."""
    skipped: set[str] = set()
    found = sorted(walk(folder, skipped))
    sizes = {path: path.stat().st_size for path in found}
    total = sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    if total > MOST_SOURCE_BYTES:
        names = ", ".join(f"{p.relative_to(folder)} ({shown_size(s)})" for p, s in largest)
        raise BadSpec(
            [Violation("folder", f"{folder} holds {shown_size(total)}; the largest: {names}")],
            fix="run from a folder with the code alone, and read data by its own path or bucket",
        )
    digest = hashlib.sha256()
    path = target / "source.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in found:
            name = file.relative_to(folder).as_posix()
            info = zipfile.ZipInfo(name)  # the same content gives the same archive, whenever it was written
            info.external_attr = (file.stat().st_mode & 0xFFFF) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            content = file.read_bytes()
            archive.writestr(info, content)
            digest.update(f"{name} {len(content)} {info.external_attr}\n".encode() + content)
    return Packed(
        path=path,
        sha256=digest.hexdigest(),
        files=len(found),
        size_bytes=path.stat().st_size,
        skipped=tuple(sorted(skipped)),
        largest=tuple((p.relative_to(folder).as_posix(), s) for p, s in largest),
    )


def walk(folder: Path, skipped: set[str] | None = None) -> Iterator[Path]:
    """The regular files below a folder; links are followed to files inside it only."""
    root = folder.resolve()
    for base, folders, files in os.walk(root):
        out = [name for name in folders if name in SKIPPED_FOLDERS or Path(base, name, "pyvenv.cfg").exists()]
        if skipped is not None:
            skipped.update(Path(base, name).relative_to(root).as_posix() for name in out)
        folders[:] = sorted(name for name in folders if name not in out)
        for name in sorted(files):
            path = Path(base, name)
            if path.is_file() and path.resolve().is_relative_to(root):
                yield path


def shown_size(size_bytes: float) -> str:
    """`1.3 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 100 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError


def _ignore(folder: str, names: list[str]) -> list[str]:
    return [
        n for n in names if n in SKIPPED_FOLDERS or n.endswith(".egg-info") or Path(folder, n, "pyvenv.cfg").exists()
    ]


def _folder_digest(folder: Path) -> str:
    """The digest of all files, by name and content (contract 4.2: the staging folder's name)."""
    digest = hashlib.sha256()
    for path in sorted(walk(folder)):
        if ".egg-info" not in path.as_posix():
            digest.update(path.relative_to(folder.resolve()).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
