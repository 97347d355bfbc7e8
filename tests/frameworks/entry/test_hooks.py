"""The way into a program: what its interpreter does before the program, in real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.frameworks.entry.program_source import first_use
from stoker.runtime.zipapp import HOOKS, build

FAKE = """
import sys
print("jax is executed")
class config:
    @staticmethod
    def update(name, value): print("set", name, value)
class distributed:
    @staticmethod
    def initialize(*words): print("meets", *words)
def device_count(): return 2
"""
CLUSTER = {
    "STOKER_DISTRIBUTE": "jax",
    "STOKER_ROLE": "chief",
    "RANK": "0",
    "WORLD_SIZE": "2",
    "JAX_COORDINATOR_ADDRESS": "127.0.0.1:1",
}
PROGRAM = "import jax\nprint('the program', jax.device_count())\n"
ADAPTED = ["jax is executed", "set jax_cpu_collectives_implementation gloo", "meets 127.0.0.1:1 2 0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a program, and a framework that tells what is done to it."""
    (tmp_path / "jax.py").write_text(FAKE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(folder: Path, *words: str, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a replica would."""
    hooks = f"{build(str(folder / 'cache'))}/{HOOKS}"
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(p for p in (hooks, path) if p)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env={**clean, **variables}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", [("program.py",), ("-m", "program")])
def test_a_framework_is_adapted_once_it_is_executed(folder: Path, words: tuple[str, ...]) -> None:
    done = run(folder, *words, **CLUSTER)
    assert done.stdout.splitlines() == [*ADAPTED, "the program 2"], done.stderr
    assert (
        done.stderr
        == "stoker: 2 processes have met (jax.distributed): 2 devices, among which the program shares its arrays\n"
    )


def test_nothing_is_done_where_nothing_was_asked_for(folder: Path) -> None:
    done = run(folder, "program.py")
    assert done.stdout.splitlines() == ["jax is executed", "the program 2"] and not done.stderr


def test_who_only_looks_for_a_framework_uses_none(folder: Path) -> None:
    (folder / "program.py").write_text("import importlib.util\nprint(importlib.util.find_spec('jax').name)\n")
    assert run(folder, "program.py", **CLUSTER).stdout == "jax\n"


def test_what_the_program_starts_is_not_adapted(folder: Path) -> None:
    more = "import subprocess, sys\nif sys.argv[1:]: subprocess.run([sys.executable, 'program.py'], check=True)\n"
    (folder / "program.py").write_text(PROGRAM + "sys_stdout = __import__('sys').stdout.flush()\n" + more)
    done = run(folder, "program.py", "again", **CLUSTER)
    assert done.stdout.splitlines() == [*ADAPTED, "the program 2", "jax is executed", "the program 2"], done.stderr


def test_a_program_that_has_the_same_file_name_finds_its_own_sitecustomize(folder: Path) -> None:
    own = folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('the environment, too')")
    done = run(folder, "program.py", path=str(own), **CLUSTER)
    assert done.stdout.splitlines()[0] == "the environment, too"
    assert done.stdout.splitlines()[1:] == [*ADAPTED, "the program 2"], done.stderr


def test_what_is_not_so_is_refused(folder: Path) -> None:
    (folder / "jax.py").write_text(FAKE.replace("return 2", "return 1"))
    done = run(folder, "program.py", **CLUSTER)
    assert done.returncode == 1 and "the program" not in done.stdout
    assert done.stderr == (
        "stoker: refused: asked for 2 devices, and the processes have 1 together (jax.distributed); "
        "say --distribute none if that is meant\n"
    )


def test_a_program_that_does_it_itself_is_left_as_it_is(folder: Path) -> None:
    (folder / "program.py").write_text("import jax\njax.distributed.initialize('mine')\n")
    done = run(folder, "program.py", **CLUSTER)
    assert done.stdout.splitlines() == ["jax is executed", "meets mine"]
    assert "left as it is: the program distributes itself (distributed.initialize, line 2 of program.py)" in done.stderr


def test_the_sdk_of_stoker_is_there_as_before(folder: Path) -> None:
    (folder / "program.py").write_text("import jax, stoker\nprint(stoker.__file__, stoker.submit.__name__)\n")
    done = run(folder, "program.py", **CLUSTER)
    assert done.stdout.splitlines()[-1].endswith("stoker/__init__.py submit"), done.stderr


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import tensorflow as tf\nwith tf.distribute.MirroredStrategy().scope(): pass", ("MirroredStrategy", 2)),
        ("from tensorflow.distribute import MirroredStrategy", ("MirroredStrategy", 1)),
        ("# MirroredStrategy\nx = 'MirroredStrategy'", None),
        ("this is no Python", None),
        ("import keras.layers", None),
    ],
)
def test_what_a_program_uses_is_seen_in_its_source(tmp_path: Path, text: str, found: tuple[str, int] | None) -> None:
    (tmp_path / "it.py").write_text(text)
    path = str(tmp_path / "it.py")
    assert first_use({"MirroredStrategy"}, path) == (found and (*found, path))


def test_a_package_that_it_imports_counts(tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text("from accelerate import Accelerator")
    path = str(tmp_path / "it.py")
    assert first_use({"accelerate"}, path) == ("accelerate", 1, path)
    assert first_use({"accelerate"}, str(tmp_path / "not there")) is None


def test_its_own_modules_are_looked_through(tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/task.py").write_text("from trainer import loop\nimport json")
    (tmp_path / "trainer/loop.py").write_text("from .model import build")
    (tmp_path / "trainer/model.py").write_text("import torch.distributed as d\nd.init_process_group()")
    (tmp_path / "other.py").write_text("import accelerate")
    use = ("init_process_group", 2, str(tmp_path / "trainer/model.py"))
    assert first_use({"init_process_group"}, str(tmp_path / "trainer/task.py")) == use
    assert first_use({"accelerate"}, str(tmp_path / "trainer/task.py")) is None
