"""What a conda environment.yml asks for, in the words of pip, as far as that can be said.

Conda's names are not always the index's, and it brings libraries and compilers that are not Python's: those are left out, for a
framework's wheels bring their own. Format: conda's documentation, "Creating an environment file manually".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from stoker.core.errors import BadSpec, Violation

NAMES = ("environment.yml", "environment.yaml")
_NAMES = {
    "pytorch": "torch",
    "pytorch-gpu": "torch",
    "pytorch-cpu": "torch",
    "pytorch-lightning": "lightning",
    "tensorflow-gpu": "tensorflow",
    "py-xgboost": "xgboost",
    "opencv": "opencv-python-headless",
    "pytables": "tables",
    "python-graphviz": "graphviz",
    "matplotlib-base": "matplotlib",
    "dask-core": "dask",
}
_NOT_PYTHONS = re.compile(
    r"_|lib|cuda|cudnn|nccl|gcc|gxx|clang|mkl\b|blas|openssl|pip$|setuptools$|wheel$|pytorch-(?:cuda|mutex)|cudatoolkit|ffmpeg|git$"
    r"|make$|cmake$|ninja$|openmp|ca-certificates|zlib|bzip2|xz$|tk$|readline|sqlite|ncurses|nodejs|r-"
)
_LINE = re.compile(r"(?:[\w.-]+::)?([A-Za-z0-9][\w.-]*|_[\w.-]*)\s*(.*)")


@dataclass(frozen=True, slots=True)
class CondaFile:
    """What was read."""

    name: str  # of the file
    python: str  # a version, or a range; empty: any
    requirements: tuple[str, ...]
    left_out: tuple[str, ...]  # what pip cannot bring


def read_conda_file(folder: Path) -> CondaFile | None:
    """The environment file of a folder, if there is one. Raises BadSpec for what is none."""
    file = next((folder / name for name in NAMES if os.path.isfile(folder / name)), None)
    if file is None:
        return None
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
        listed = found.get("dependencies") or []
    except (OSError, ValueError, yaml.YAMLError, AttributeError) as error:
        raise BadSpec([Violation(file.name, f"cannot be read: {str(error).splitlines()[0]}")]) from None
    python, lines, left_out = "", list[str](), list[str]()
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            lines += [str(line) for line in one.get("pip") or [] if not str(line).startswith("-")]
            continue
        parts = _LINE.fullmatch(str(one).strip())
        name, version = (parts[1].lower(), _version(parts[2])) if parts else (str(one), "")
        if name == "python":
            python = version.removeprefix("==").removesuffix(".*")
        elif _NOT_PYTHONS.match(name) or not parts:
            left_out.append(name)
        else:
            lines.append(_NAMES.get(name, name) + version)
    return CondaFile(file.name, python, tuple(lines), tuple(left_out))


def _version(text: str) -> str:
    """`=1.26` is 1.26 and what is below it, `=1.26.4=py310h1` and `==1.26.4` that one; others are as pip has them."""
    text = text.strip().replace(" ", "")
    if text.startswith("=") and not text.startswith("=="):
        number, _, build = text[1:].partition("=")
        return f"=={number}" if build else f"=={number.removesuffix('.*')}.*"
    number, _, _ = text.removeprefix("==").partition("=") if text.startswith("==") else (text, "", "")
    return f"=={number}" if text.startswith("==") else text
