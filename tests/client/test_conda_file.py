"""What a conda environment.yml asks for, for pip."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.client.conda_file import CondaFile, read_conda_file
from stoker.client.environment import find_environment
from stoker.core.errors import BadSpec

FILE = """
name: lab
channels: [pytorch, nvidia, conda-forge]
dependencies:
  - python=3.11
  - pytorch::pytorch=2.3
  - numpy=1.26.4=py311h64a7726_0
  - pandas >=2.0,<3
  - scikit-learn==1.4.2
  - cudatoolkit=11.8
  - _libgcc_mutex=0.1
  - pip
  - pip:
      - cowsay==6.1
"""


def a_folder(folder: Path, text: str) -> Path:
    (folder / "environment.yml").write_text(text)
    (folder / "train.py").write_text("")
    return folder


def test_what_pip_can_bring_and_what_it_cannot(tmp_path: Path) -> None:
    assert read_conda_file(a_folder(tmp_path, FILE)) == CondaFile(
        "environment.yml",
        "3.11",
        ("torch==2.3.*", "numpy==1.26.4", "pandas>=2.0,<3", "scikit-learn==1.4.2", "cowsay==6.1"),
        ("cudatoolkit", "_libgcc_mutex", "pip"),
    )


def test_it_comes_last_and_brings_its_python(tmp_path: Path) -> None:
    folder, command = a_folder(tmp_path, FILE), ["python", "train.py"]
    found = find_environment(command, folder, variables={})
    assert (found.python, found.requirements[0]) == ("3.11", "torch==2.3.*")
    assert found.why == (
        "environment.yml, without cudatoolkit, _libgcc_mutex, pip (5 requirements) on Python 3.11 (environment.yml)"
    )
    assert find_environment(command, folder, python="stoker", variables={}).python == ""
    (folder / "requirements.txt").write_text("six\n")
    assert find_environment(command, folder, variables={}).requirements == ("six",)


@pytest.mark.parametrize("text", ["- a", "dependencies: [", "7"])
def test_what_is_none_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadSpec, match=r"environment\.yml"):
        read_conda_file(a_folder(tmp_path, text))


@pytest.mark.parametrize("text", ["name: x", "dependencies:", "dependencies: 7", "dependencies: []"])
def test_one_that_asks_for_nothing(tmp_path: Path, text: str) -> None:
    found = read_conda_file(a_folder(tmp_path, text))
    assert found is not None and (found.python, found.requirements) == ("", ())
