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


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "pip3 install x && python -m y"],
        ["sh", "-c", "set -e\npip install x\npython -m y"],
        ["sh", "-c", "cd /app;(/usr/bin/pip3.11 install x)"],
        ["bash", "-c", "sh -c 'pip install x'"],
        ["python3", "-m", "pip", "install", "x"],
        ["sh", "-c", "python3 -mpip install x"],
        ["/opt/venv/bin/pip", "install", "x"],
    ],
)
def test_who_calls_pip_installs(command: list[str]) -> None:
    assert installs_packages(command)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "trainer.task"],
        ["python", "pipeline.py", "--pipeline", "pip.yaml"],
        ["sh", "-c", "python -m data.pipeline && /app/pipx_less --recipe=pippin"],
        ["sh", "-c", "exec ./my-pip --to pip/cache"],
    ],
)
def test_whose_words_only_look_like_it_does_not(command: list[str]) -> None:
    assert not installs_packages(command)


def test_without_an_interpreter_it_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="/no/python"):
        make_layer("/no/python", str(tmp_path / "environment"))
