"""Packs the user's program: a trainer folder as a source distribution, or a whole folder as a zip. Both are named by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.errors import BadSpec, Violation

SKIPPED_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", ".eggs"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", ".idea", ".vscode"),
        *(".ssh", ".aws", ".gnupg", ".kube", ".docker"),  # keys, which nobody means to send
    }
)
_MARKS_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")  # whatever their folder is called; many a package is called env
MOST_SOURCE_BYTES = 2 << 30
_BLOCK_BYTES = 1 << 20
_NO_NAME = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_SETUP = """from setuptools import find_packages, setup

setup(
    name={name!r},
    version={version!r},
    install_requires={requires!r},
    packages=find_packages(include=[{package!r}, {package!r} + ".*"]),
    include_package_data=True,
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed program."""

    path: Path
    sha256: str
    files: int
    size_bytes: int
    skipped: tuple[str, ...] = ()  # folders and links left out
    largest: tuple[tuple[str, int], ...] = ()  # the largest files, with their sizes


@dataclass(slots=True)
class Tree:
    """The files below a folder that are to be packed, and what is not."""

    root: Path
    sizes: dict[Path, int] = field(default_factory=dict)  # by path, in the order of their names
    skipped: list[str] = field(default_factory=list)

    @property
    def total_bytes(self) -> int:
        """How much there is."""
        return sum(self.sizes.values())

    def name(self, path: Path) -> str:
        """The name of a file below the root."""
        return path.relative_to(self.root).as_posix()

    def largest(self) -> list[tuple[str, int]]:
        """The largest files, with their sizes."""
        return [(self.name(p), size) for p, size in sorted(self.sizes.items(), key=lambda item: -item[1])[:5]]


def pack_trainer(package: Path, target: Path) -> Packed:
    """A source distribution of a trainer package (the folder with its `__init__.py`).

    Its parent's setup.py is used if there is one, else one is made up: the folder's name, version 0.0.0 (contract 4.2), or
    what the [project] of a pyproject.toml says. The user's folder is not written to. Raises BadSpec.
    """
    package = package.resolve()
    _check_package(package)
    root, work = package.parent, target / "package"
    build = _build_file(root)
    with _readable("--package-path"):
        tree = look_through(root if build else package, "--package-path")
        for path in tree.sizes:
            copy = work / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    if build is None:
        (work / "setup.py").write_text(_made_up_setup(package))
        (work / "MANIFEST.in").write_text(f"recursive-include {package.name} *\nglobal-exclude *.py[co]\n")
    elif not (work / "setup.py").exists():
        (work / "setup.py").write_text("from setuptools import setup\n\nsetup()\n")
    digest = _digest(work)
    made = _build(work, target / "dist", build or package)
    return Packed(
        path=made,
        sha256=digest,
        files=len(tree.sizes),
        size_bytes=made.stat().st_size,
        skipped=tuple(tree.skipped),
        largest=tuple(tree.largest()),
    )


def pack_folder(folder: Path, target: Path, begin: Callable[[Tree], None] = lambda _: None) -> Packed:
    """A zip of a folder without its version control, virtual environments and caches. Raises BadSpec if it is too large.

    `begin` is told what there is, before the packing takes its time.
    """
    digest, path = hashlib.sha256(), target / "source.zip"
    with _readable("folder"):
        tree = look_through(folder, "folder")
        begin(tree)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for file in tree.sizes:
                info = zipfile.ZipInfo(tree.name(file))  # of no date: the same content gives the same archive
                info.external_attr = (file.stat().st_mode & 0xFFFF) << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                content = hashlib.sha256()
                with open(file, "rb") as source, archive.open(info, "w", force_zip64=True) as packed:
                    while block := source.read(_BLOCK_BYTES):
                        packed.write(block)
                        content.update(block)
                digest.update(f"{info.filename}\0{info.external_attr}\0{content.hexdigest()}\n".encode())
    return Packed(
        path=path,
        sha256=digest.hexdigest(),
        files=len(tree.sizes),
        size_bytes=path.stat().st_size,
        skipped=tuple(tree.skipped),
        largest=tuple(tree.largest()),
    )


def look_through(folder: Path, what: str) -> Tree:
    """The regular files below a folder. A link counts as the file inside the folder that it leads to; others are left out.

    Raises BadSpec if there is too much, and OSError for what cannot be read: left out silently, it would be missed later.
    """
    tree = Tree(folder.resolve())
    for path in _walk(tree):
        tree.sizes[path] = path.stat().st_size
    if tree.total_bytes > MOST_SOURCE_BYTES:
        names = ", ".join(f"{name} ({shown_size(size)})" for name, size in tree.largest())
        raise BadSpec(
            [Violation(what, f"{folder} holds {shown_size(tree.total_bytes)}; the largest: {names}")],
            fix="give a folder with the code alone, and read data by its own path or bucket",
        )
    return tree


def shown_size(size_bytes: float) -> str:
    """`1.3 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 100 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError


def shown_files(count: int) -> str:
    """`1 file`, `14 files`."""
    return "1 file" if count == 1 else f"{count} files"


def without(skipped: Sequence[str]) -> str:
    """` (without .git, venv)`: what was left out, the caches that every folder has not named."""
    named = [name for name in skipped if not name.endswith("__pycache__")]
    more = f" and {len(named) - 4} more" if named[4:] else ""
    return f" (without {', '.join(named[:4])}{more})" if named else ""


def _walk(tree: Tree) -> Iterator[Path]:
    for base, folders, files in os.walk(tree.root, onerror=_raise):
        kept = [name for name in sorted(folders) if not _is_skipped(Path(base, name))]
        for path in [Path(base, name) for name in sorted(folders) if name not in kept]:
            tree.skipped.append(tree.name(path) + (" (a link)" if path.is_symlink() else ""))
        folders[:] = kept
        for name in sorted(files):
            path = Path(base, name)
            if path.is_symlink() and not path.resolve().is_relative_to(tree.root):
                tree.skipped.append(f"{tree.name(path)} (a link that leads outside)")
            elif path.is_file():
                _check_name(tree.name(path))
                yield path


def _is_skipped(folder: Path) -> bool:
    is_environment = any((folder / mark).exists() for mark in _MARKS_OF_ENVIRONMENTS)
    return folder.name in SKIPPED_FOLDERS or folder.name.endswith(".egg-info") or folder.is_symlink() or is_environment


def _check_name(name: str) -> None:
    """An archive keeps names as text, and its reader takes a backslash for a way out."""
    if _NO_NAME.search(name):
        raise BadSpec([Violation("folder", f"{name!a} is a name that cannot be packed: rename it")])


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"{error.filename} cannot be read: {error.strerror or error}"
        raise BadSpec([Violation(what, problem)]) from None


def _check_package(package: Path) -> None:
    if not os.path.isdir(package):
        raise BadSpec([Violation("--package-path", f"{package} is not a folder")])
    if not (package / "__init__.py").exists():
        raise BadSpec(
            [Violation("--package-path", f"{package} has no __init__.py, so Python does not take it for a package")],
            fix=f"touch {package / '__init__.py'}",
        )


def _build_file(root: Path) -> Path | None:
    """The file by which the folder says how setuptools builds it. Another builder's would be wanted again on the other side,
    and a pyproject.toml may be there for other tools alone."""
    if (root / "setup.py").is_file():
        return root / "setup.py"
    pyproject = _read_toml(root / "pyproject.toml")
    return root / "pyproject.toml" if "setuptools" in pyproject.get("tool", {}) and "project" in pyproject else None


def _made_up_setup(package: Path) -> str:
    project = _read_toml(package.parent / "pyproject.toml").get("project", {})
    return _SETUP.format(
        name=project.get("name", package.name),
        version=project.get("version", "0.0.0"),
        requires=project.get("dependencies", []),
        package=package.name,
    )


def _read_toml(path: Path) -> dict[str, dict[str, object]]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadSpec([Violation(str(path), f"cannot be read: {error}")]) from None


def _build(work: Path, dist: Path, by: Path) -> Path:
    command = [sys.executable, "setup.py", "-q", "sdist", "--formats=gztar", "--dist-dir", str(dist)]
    result = subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    made = sorted(dist.glob("*.tar.gz"))
    if result.returncode != 0 or not made:
        last = "\n".join(result.stderr.strip().splitlines()[-5:])
        raise BadSpec([Violation("--package-path", f"{by} does not build: {last}")])
    return made[0]


def _digest(folder: Path) -> str:
    """The digest of all files, by name and content (contract 4.2: the staging folder's name)."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()
