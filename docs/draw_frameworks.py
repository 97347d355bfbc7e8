"""The tables of docs/frameworks.md: what works with which framework, as the tests prove it, and which names are replaced.

A test says what it proves by `@pytest.mark.proves(PROGRAM, WHERE, HOW)`. What no test proves is not in the table.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.markdown import table
from stoker.frameworks.replaced import CHANGES, TRIED, Change, is_public

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).parent / "frameworks.md"
BEGIN, END = "<!-- drawn by docs/draw.py from the marks of tests -->", "<!-- end of what is drawn -->"
BEGIN_REPLACED = "<!-- drawn by docs/draw.py from frameworks/replaced.py -->"

PROGRAMS = (
    "Keras 3 on TensorFlow, `fit`",
    "Keras 3 on JAX, `fit`",
    "Keras 3 on PyTorch, `fit`",
    "tf_keras, `fit`",
    "A PyTorch loop with a `DataLoader`",
    "JAX, a loop of its own",
    "TensorFlow, a loop of its own",
    "Any other loop",
    "A program that distributes itself",
)
PLACES = (
    "One machine, several GPUs",
    "Several replicas",
    "Parameter servers",
    "Goes on after a kill",
    "Steps are told",
)


def frameworks() -> str:
    """The page, with the tables as they are now."""
    text = PAGE.read_text()
    for begin, drawn in ((BEGIN, matrix()), (BEGIN_REPLACED, replaced())):
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{drawn}\n\n{END}{rest.partition(END)[2]}"
    return text


def replaced() -> str:
    """The names that are replaced, change by change."""
    rows = [
        [_framework(one), one.why, "<br>".join(map(_name, (*one.names, *one.extra))), _without(one)] for one in CHANGES
    ]
    return table(["In", "So that", "These are replaced", "In a version that lacks one"], rows)


def _framework(change: Change) -> str:
    return f"{change.framework} {', '.join(TRIED.get(change.framework, ()))}".rstrip()


def _name(path: str) -> str:
    shown = f"`{path.removeprefix('builtins:').replace(':', '.')}`"
    return shown if is_public(path) else f"{shown} (private)"


def _without(change: Change) -> str:
    return f"the program is refused: {change.without}" if change.is_needed else change.without


def matrix() -> str:
    """Programs by places. Raises KeyError if a test proves what the table has no cell for."""
    cells: dict[tuple[str, str], dict[str, list[str]]] = {(one, where): {} for one in PROGRAMS for where in PLACES}
    for program, where, how, path in sorted(_proofs()):
        files = cells[program, where].setdefault(how, [])
        if path not in files:
            files.append(path)
    rows = [[program, *(_cell(cells[program, where]) for where in PLACES)] for program in PROGRAMS]
    return table(["Program", *PLACES], rows)


def _cell(found: dict[str, list[str]]) -> str:
    return "; ".join(f"[{how}](../{files[0]})" for how, files in found.items()) or "–"


def _proofs() -> Iterator[tuple[str, str, str, str]]:
    """What the tests are marked with: program, place, how, and the test's file."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.proves(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
                program, where, how = (ast.literal_eval(argument) for argument in node.args)
                yield program, where, how, path.relative_to(ROOT).as_posix()
