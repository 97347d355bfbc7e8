"""What can be seen of the program before it runs: whether it distributes itself."""

from __future__ import annotations

import ast
import os
import sys
from typing import Container, Iterator, List, NamedTuple, Optional, Tuple

_LAUNCHERS = frozenset(
    "torchrun torch.distributed.run torch.distributed.launch accelerate accelerate.commands.launch deepspeed "
    "lightning fabric".split()
)

_MOST_FILES = 100


def main_file() -> str:
    """The file of the program; empty where there is none, such as for `python -c`."""
    return getattr(sys.modules.get("__main__"), "__file__", None) or ""


def launcher() -> str:
    """The launcher of somebody else's that this process is; empty: it is none."""
    words: List[str] = getattr(sys, "orig_argv", sys.argv)
    for word in map(os.path.basename, words):
        if word in _LAUNCHERS:
            return word
        if word.endswith(".py"):
            break  # what follows is the program's own
    return ""


class Use(NamedTuple):
    """Of a name, or a package, in a program."""

    name: str
    line: int
    file: str

    def __str__(self) -> str:
        near = os.path.relpath(self.file)
        return f"{self.name}, line {self.line} of {self.file if near.startswith(os.pardir) else near}"


def first_use(names: Container[str], file: str) -> Optional[Use]:
    """The first of these names that a program uses, or package that it imports. `file`: where it begins.

    Its own modules are looked through, too: those beside the file. None: it uses none, or cannot be read.
    """
    for this, tree in _sources(file):
        found = min((use for use in _uses(tree) if use[1] in names), default=None)
        if found is not None:
            return Use(found[1], found[0], this)
    return None


def says(words: Container[str], file: str) -> bool:
    """Whether one of these, in small letters, is a text in a program: a variable's name, or an option's (`--node-rank`)."""
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.lstrip("-").replace("-", "_").lower() in words
        for _, tree in _sources(file)
        for node in ast.walk(tree)
    )


def _sources(file: str) -> Iterator[Tuple[str, ast.AST]]:
    """The file in which a program begins, and those of its own modules, parsed."""
    seen, ahead = {file}, [file]
    while ahead and len(seen) < _MOST_FILES:
        this = ahead.pop(0)
        try:
            with open(this, encoding="utf-8") as source:
                tree = ast.parse(source.read())
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        yield this, tree
        for path in _own_modules(tree, os.path.dirname(os.path.abspath(file))):
            if path not in seen:
                seen.add(path)
                ahead.append(path)


def imports(package: str) -> bool:
    """Whether the program, or a module of its own, imports a package by this very name."""
    return first_use({f"import {package}"}, main_file()) is not None


def saves_itself() -> bool:
    """Whether the program's loops are those of stoker/checkpoint.py, so that what `--checkpoints` says is for them."""
    return first_use({"stoker.checkpoint"}, main_file()) is not None


def _own_modules(tree: ast.AST, folder: str) -> Iterator[str]:
    """The files that a module imports from the folder of the program, or from that above it: `trainer.model` in `trainer`."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        base = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        dotted = [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
        for parts in (name.split(".") for name in dotted if name):
            for root in (folder, os.path.dirname(folder)):
                path = os.path.join(root, *parts)
                for found in (path + ".py", os.path.join(path, "__init__.py")):
                    if os.path.isfile(found):
                        yield found


def _uses(tree: ast.AST) -> Iterator[Tuple[int, str]]:
    """Every name, attribute and imported package, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
            yield node.lineno, f"{getattr(node.value, 'attr', getattr(node.value, 'id', ''))}.{node.attr}"
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
                if isinstance(node, ast.Import):
                    yield node.lineno, "import " + alias.name.partition(".")[0]
                yield node.lineno, alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.lineno, node.module
                yield node.lineno, "import " + ("" if node.level else node.module.partition(".")[0])
                for part in node.module.split("."):
                    yield node.lineno, part
