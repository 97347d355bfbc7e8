"""An environment on top of another: what is installed there is seen there, and not below."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.runtime.errors import CannotStart
from stoker.runtime.layer import installs_packages, make_layer


def test_what_a_container_installs_stays_its_own(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(name='layered', py_modules=['layered'])\n")
    (tmp_path / "layered.py").write_text("import httpx\nprint('layered over', httpx.__name__)\n")
    made = make_layer(sys.executable, str(tmp_path / "environment"))
    path = os.pathsep.join([made["PATH"], os.environ["PATH"]])
    script = "pip3 install -q --user --no-build-isolation --no-deps --no-index . && cd / && python3 -m layered"
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env={**os.environ, **made, "PATH": path}, capture_output=True, text=True
    )
    assert done.stdout == "layered over httpx\n", done.stderr
    below = subprocess.run([sys.executable, "-c", "import layered"], cwd="/", capture_output=True)
    assert below.returncode != 0


def test_only_who_names_pip_installs() -> None:
    assert installs_packages(["sh", "-c", "pip3 install x && python -m y"])
    assert not installs_packages(["python", "-m", "trainer.task"])


def test_without_an_interpreter_it_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="/no/python"):
        make_layer("/no/python", str(tmp_path / "environment"))
