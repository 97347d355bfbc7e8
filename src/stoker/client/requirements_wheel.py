"""A wheel that holds nothing but requirements: so a training job of the v1 API, which names archives alone, brings them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from stoker.core.errors import BadSpec, Violation

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
    beside = package_path.resolve().parent if package_path is not None else None
    if not files and beside is not None and not (beside / "setup.py").exists():
        files = [file for file in (beside / "requirements.txt",) if file.is_file()]
    lines = [line.partition(" --hash")[0] for file in files for line in lines_of(file)]
    for line in lines:
        if line.startswith(("-", ".", "/")):
            raise BadSpec(
                [
                    Violation(
                        "--requirements",
                        f"{line[:80]!r} is an option or a path, and a training job takes packages only",
                    )
                ],
                fix="give the index to uv by its settings (UV_INDEX_URL for the server), or archives with --packages",
            )
    names = [", ".join(file.name for file in files), *(["--with"] if packages else [])]
    return (*lines, *packages), " and ".join(filter(None, names))


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
