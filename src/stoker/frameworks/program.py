"""What can be seen of the program before it runs: whether it distributes itself."""

from __future__ import annotations

import ast
import os
import sys
from typing import Container, Iterator, Optional, Tuple

_LAUNCHERS = frozenset(
    "torchrun torch.distributed.run torch.distributed.launch accelerate accelerate.commands.launch deepspeed "
    "lightning fabric".split()
)


def main_file() -> str:
    """The file of the program; empty where there is none, such as for `python -c`."""
    return getattr(sys.modules.get("__main__"), "__file__", None) or ""


def launcher() -> str:
    """The launcher of somebody else's that this process is; empty: it is none."""
    words = getattr(sys, "orig_argv", sys.argv)[:3]
    return next((os.path.basename(word) for word in words if os.path.basename(word) in _LAUNCHERS), "")


def first_use(names: Container[str], file: str) -> Optional[Tuple[str, int]]:
    """The first of these names that a file uses, or package that it imports, with its line.

    None: it uses none, or cannot be read.
    """
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    found = min((use for use in _uses(tree) if use[1] in names), default=None)
    return None if found is None else (found[1], found[0])


def _uses(tree: ast.AST) -> Iterator[Tuple[int, str]]:
    """Every name, attribute and imported package, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom) and node.module:
                for part in node.module.split("."):
                    yield node.lineno, part
