"""A program that could not start is refused before anything is sent, with the nearest that could."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.client.program_check import check_command, check_module
from stoker.core.errors import BadSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "train.py": "print(1)\n",
        "broken.py": "import os\nprint('x'\n",
        "warns.py": "'\\d'\n",
        "scripts/run.sh": "true\n",
        "trainer/__init__.py": "",
        "trainer/task.py": "",
        "trainer/sub/model.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def refusal(command: str, folder: Path, *, is_own_python: bool = True) -> str:
    """What is said of it; empty: it is taken."""
    try:
        check_command(command.split(), folder, is_own_python=is_own_python)
    except BadSpec as error:
        return " ".join(f"{v.field} {v.description}" for v in error.violations)
    return ""


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --epochs 3",
        "python3.12 -u -W ignore train.py",
        "python -c print(1)",
        "python -",
        "python",
        "python -m trainer.task",
        "python -m trainer.sub.model",
        "python -m trainer",
        "python -m torch.distributed.run train.py",
        "python /somewhere/else.py",
        "python warns.py",
        "bash scripts/run.sh",
        "bash -c true",
        "scripts/run.sh",
        "my_own_tool --x",
        "deepspeed train.py",
    ],
)
def test_what_may_start_is_taken(folder: Path, command: str) -> None:
    assert refusal(command, folder) == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("python trian.py", "there is no trian.py in FOLDER; did you mean train.py?"),
        ("python -u -X dev trian.py", "did you mean train.py?"),
        ("python nothing_like_it_at_all.txt", "there is no nothing_like_it_at_all.txt in FOLDER"),
        ("python -m trainer.tsk", "there is no module 'trainer.tsk' in FOLDER; did you mean trainer.task?"),
        ("bash scripts/rum.sh", "did you mean scripts/run.sh?"),
        ("./scripts/rum.sh", "there is no ./scripts/rum.sh in FOLDER"),
        ("pyhton train.py", "there is no program 'pyhton'; did you mean python?"),
        ("python broken.py", "broken.py line 2 Python"),
    ],
)
def test_what_cannot_start_is_refused_with_the_nearest(folder: Path, command: str, told: str) -> None:
    assert told.replace("FOLDER", str(folder)) in refusal(command, folder)


def test_what_another_python_runs_is_not_read_by_this_one(folder: Path) -> None:
    assert refusal("python broken.py", folder, is_own_python=False) == ""


def test_a_module_is_looked_up_in_its_package(folder: Path) -> None:
    check_module("trainer.task", folder / "trainer")
    check_module("trainer.sub.model", folder / "trainer")
    check_module("trainer", folder / "trainer")
    with pytest.raises(BadSpec) as caught:
        check_module("trainer.tsk", folder / "trainer")
    assert "did you mean trainer.task?" in caught.value.violations[0].description
    with pytest.raises(BadSpec):
        check_module("traner.task", folder / "trainer")


def test_another_package_of_the_same_setup_is_let_be(folder: Path) -> None:
    (folder / "setup.py").touch()
    check_module("generated.task", folder / "trainer")
