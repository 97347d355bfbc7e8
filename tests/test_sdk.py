"""`import stoker`: every name is there, told to type checkers too, and costs nothing until it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stoker

PACKAGE = Path(stoker.__file__).parent


def test_every_name_is_there_and_documented() -> None:
    for name in stoker._SDK:
        found = getattr(stoker, name)
        assert found.__doc__ and name in dir(stoker), name
    assert set(stoker.__all__) == {"__version__", *stoker._SDK}


def test_the_stub_says_the_same() -> None:
    """Type checkers read the stub, and programs run the table."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    told = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == {**stoker._SDK, "checkpoint": "stoker"}, "but for a module, which stands for itself"


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sumbit'"):
        _ = stoker.sumbit
    assert not hasattr(stoker, "nothing")


def test_importing_it_imports_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import stoker; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['stoker']"


def test_a_program_that_uses_it_is_type_checked(tmp_path: Path) -> None:
    """By mypy, as a user would: what is right passes, what is wrong is told."""
    program = tmp_path / "program.py"
    program.write_text(
        "import stoker\n"
        "job = stoker.submit('train.py', gpus=1)\n"
        "reveal_type(job.wait())\n"
        "reveal_type([line.text for line in job.logs()])\n"
        "job.wiat()\n"
        "stoker.submit('train.py', gpus='one')\n"
    )
    cache = tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={cache}", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"MYPYPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin"},
    )
    assert 'Revealed type is "str"' in done.stdout and 'Revealed type is "list[str]"' in done.stdout, done.stdout
    assert 'program.py:5: error: "Job" has no attribute "wiat"' in done.stdout
    assert "program.py:6: error:" in done.stdout and done.stdout.count("error:") == 2, done.stdout
