"""Which Python environment a command runs in: what was said, else what the program and its folder say, else the active one.

Python:    --python, else what the script's inline metadata says, else the active environment, else what environment.yml says,
           else Stoker's own.
Packages:  --requirements, else the script's inline metadata, else uv.lock, requirements.txt, pyproject.toml or environment.yml of
           the folder; and --with beside any of them. What that Python has already, and fits, is not installed again.

Inline metadata: PEP 723. The active environment: VIRTUAL_ENV or CONDA_PREFIX, as `activate` sets them; where programs may run on
other machines, its version of Python and the packages that it has, which are installed there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, Violation
from stoker.core.requirements import VERSION, problem_of

from .active_environment import ActiveEnvironment, find_active_environment, normal_name, read_installed
from .conda_file import read_conda_file

STOKERS_OWN = "stoker"
"""`--python stoker`: the one that Stoker runs on, whatever is active."""

_BLOCK = re.compile(r"^# /// script\n((?:#(?: .*)?\n)*?)# ///$", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s+)#.*$")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_NESTED = re.compile(r"(?:-r|--requirement)[\s=]*(.+)")
_DEEPEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is sent of an environment, and what to say of it."""

    python: str = ""  # a version, or the whole path of an interpreter; empty: Stoker's own
    requirements: tuple[str, ...] = ()
    why: str = ""  # in a line; empty: there is nothing to say

    def fields(self) -> dict[str, object]:
        """The environment as fields of a request to run a command."""
        found: dict[str, object] = {"python": self.python, "requirements": list(self.requirements)}
        return {name: value for name, value in found.items() if value}


def find_environment(
    command: Sequence[str],
    folder: Path,
    *,
    python: str = "",
    requirements: Sequence[Path] = (),
    packages: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    runs_here: Callable[[], bool] = lambda: True,
) -> Environment:
    """The environment of a command that runs in a copy of a folder.

    `packages`: those of `--with`. `runs_here`: whether it runs on this machine, and has the interpreters of this one; it is asked
    only where that matters. Raises BadSpec for what cannot be read or meant.
    """
    inline = _inline_metadata(command, folder)
    interpreter, where = _interpreter(python, inline)
    active = None
    if not interpreter and python != STOKERS_OWN:
        active = find_active_environment(os.environ if variables is None else variables)
    if active:
        interpreter, where = active.python, active.title
    lines, whose = _requirements(requirements, inline, folder)
    conda = read_conda_file(folder) if not (requirements or inline or whose) else None
    if conda is not None:
        lines, whose = list(conda.requirements), f"{conda.name}{_without(conda.left_out)}"
        if conda.python and not interpreter and python != STOKERS_OWN and VERSION.fullmatch(conda.python):
            interpreter, where = conda.python, f"Python {conda.python} ({conda.name})"
    lines += packages
    for line in packages:
        _check(line, "--with")
    names = [whose, *(["--with"] if packages else [])]
    what = f"{' and '.join(filter(None, names))} ({_count(lines)})" if lines else ""
    if active and not runs_here():
        interpreter, where, copied = _copied(active, lines)
        lines += copied
    why = " on ".join(filter(None, (what, where or ("Stoker's own Python" if lines else ""))))
    return Environment(python=interpreter, requirements=tuple(lines), why=why)


def _copied(active: ActiveEnvironment, lines: Sequence[str]) -> tuple[str, str, list[str]]:
    """What has the same as the active environment on another machine: a version of Python, how to say it, and requirements.

    What the program's own lines name is theirs to choose; where they have hashes, they name all there is.
    """
    installed = read_installed(active.python)
    named = {normal_name(found[0]) for line in lines if (found := _NAME.match(line))}
    has_hashes = any("--hash" in line for line in lines)
    copied = [
        line
        for line in installed.requirements
        if not has_hashes and normal_name(line.partition("==")[0].partition(" @ ")[0]) not in named
    ]
    packages = f" with {len(copied)} package{'s' * (len(copied) != 1)} of {active.title}" if copied else ""
    where = f"Python {installed.python}{packages}{_without(installed.left_out)}"
    return installed.python, where, copied


def _without(left_out: Sequence[str]) -> str:
    more = f" and {len(left_out) - 4} more" if left_out[4:] else ""
    return f", without {', '.join(left_out[:4])}{more}" if left_out else ""


def _interpreter(asked: str, inline: Mapping[str, object]) -> tuple[str, str]:
    """The interpreter that was asked for, and where it was found; nothing, if none was."""
    if asked == STOKERS_OWN:
        return "", ""
    if asked:
        return _asked_python(asked), f"Python {asked}"
    version = str(inline.get("requires-python", ""))
    if version and not VERSION.fullmatch(version):
        raise BadSpec([Violation("requires-python", f"{version[:80]!r} is not a version of Python")])
    return version, f"Python {version} (inline metadata)" if version else ""


def _asked_python(asked: str) -> str:
    if os.sep in asked or os.path.exists(asked):
        path = os.path.abspath(asked)
        inside = os.path.join(path, "bin", "python")  # the folder of an environment
        found = inside if os.path.isdir(path) else path
        if not os.path.isfile(found) or not os.access(found, os.X_OK):
            raise BadSpec(
                [Violation("--python", f"{asked} is not an interpreter")], fix="give one, or a version such as 3.12"
            )
        return found
    if not VERSION.fullmatch(asked):
        raise BadSpec(
            [Violation("--python", f"{asked[:80]!r} is neither a version nor the path of an interpreter")],
            fix="such as --python 3.12, --python ../env/bin/python, or --python stoker for Stoker's own",
        )
    return asked


def _requirements(files: Sequence[Path], inline: Mapping[str, object], folder: Path) -> tuple[list[str], str]:
    """The lines, and what they come from."""
    if files:
        found = [line for file in files for line in lines_of(file)]
        return found, ", ".join(map(str, files))
    if inline:
        return _listed(inline.get("dependencies", []), "the script's inline metadata"), "inline metadata"
    if os.path.isfile(folder / "uv.lock"):
        return _locked(folder), "uv.lock"
    if os.path.isfile(folder / "requirements.txt"):
        return list(lines_of(folder / "requirements.txt")), "requirements.txt"
    if os.path.isfile(folder / "pyproject.toml"):
        project = _toml((folder / "pyproject.toml").read_text(encoding="utf-8"), "pyproject.toml").get("project", {})
        dependencies = project.get("dependencies", []) if isinstance(project, dict) else []
        return _listed(dependencies, "pyproject.toml"), "pyproject.toml"
    return [], ""


def _inline_metadata(command: Sequence[str], folder: Path) -> Mapping[str, object]:
    """Of the first script of the command, as PEP 723 has it; empty: there is none."""
    script = next((folder / word for word in command if word.endswith(".py")), None)
    if script is None or not os.path.isfile(script):
        return {}
    blocks = _BLOCK.findall(script.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n"))
    if len(blocks) > 1:
        raise BadSpec([Violation(script.name, "has more than one block of inline metadata")])
    text = "".join(
        line[2:] if line.startswith("# ") else line[1:] for block in blocks for line in block.splitlines(True)
    )
    return _toml(text, script.name) if blocks else {}


def lines_of(file: Path, depth: int = 0) -> Iterator[str]:
    """The lines of a requirements file, and of those that it names, without comments."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", "") or "it is not text"
        raise BadSpec([Violation("--requirements", f"{file} cannot be read: {problem}")]) from None
    for number, raw in enumerate(text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines(), 1):
        line = _COMMENT.sub("", raw).strip()
        nested = _NESTED.fullmatch(line)
        if nested and depth < _DEEPEST:
            yield from lines_of(file.parent / nested[1].strip(), depth + 1)
        elif line:
            _check(line, f"{file.name} line {number}")
            yield line


def _locked(folder: Path) -> list[str]:
    """What a uv.lock pins, as uv itself says it."""
    words = "export --frozen --no-dev --no-emit-project --no-hashes --no-header --no-annotate --format requirements-txt"
    beside = Path(sys.executable).with_name("uv")
    command = [str(beside) if beside.exists() else "uv", *words.split()]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise BadSpec([Violation("uv.lock", f"uv cannot be run: {error.strerror}")]) from None
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise BadSpec([Violation("uv.lock", f"uv cannot read it: {last}")], fix="uv lock writes it anew")
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _listed(found: object, where: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        raise BadSpec([Violation("dependencies", f"of {where} is not a list of texts")])
    for line in found:
        _check(line, where)
    return list(found)


def _check(line: str, where: str) -> None:
    if problem := problem_of(line):
        raise BadSpec([Violation(where, f"{line[:80]!r} {problem}")])


def _toml(text: str, where: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSpec([Violation(where, f"is no TOML: {error}")]) from None


def _count(lines: Sequence[str]) -> str:
    count = sum(not line.startswith("-") for line in lines)
    return "1 requirement" if count == 1 else f"{count} requirements"
