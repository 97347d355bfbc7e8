"""The wheel: built, installed into an empty environment, and used from there, far from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.campaign]

ROOT = Path(__file__).parent.parent.parent
UV = str(Path(sys.executable).with_name("uv"))


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make package` makes."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "-s", "package", f"DIST={folder}"], cwd=ROOT, check=True, capture_output=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment that holds the wheel, with its demo, and a home of its own: the variables of a shell there."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = dist.glob("*.whl")
    python = str(folder / "env" / "bin" / "python")
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, str(folder / "env")], check=True, timeout=60)
    asked = [UV, "pip", "install", "-q", "--python", python, "-c", str(ROOT / "constraints.txt"), f"{wheel}[demo]"]
    subprocess.run(asked, check=True, timeout=900)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "VIRTUAL_ENV", "PYTHON"))}
    path = f"{folder / 'env' / 'bin'}:{os.environ['PATH']}"
    yield {**kept, "PATH": path, "STOKER_HOME": str(folder / "home"), "STOKER_PORT": "0", "PWD": str(folder)}
    subprocess.run([str(folder / "env" / "bin" / "stoker"), "down"], env={**kept, "STOKER_HOME": str(folder / "home")})


def run(installed: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """A command in that shell."""
    folder = installed["PWD"]
    return subprocess.run(command, env=installed, cwd=folder, capture_output=True, text=True, timeout=300)


def test_the_wheel_is_what_runs(installed: dict[str, str]) -> None:
    where = run(installed, "python", "-c", "import stoker; print(stoker.__file__)").stdout
    assert where.startswith(installed["PWD"]), "not the checkout"
    done = run(installed, "stoker", "run", "--", "python", "-c", "print('from a wheel')")
    assert done.returncode == 0 and "from a wheel" in done.stdout, done.stderr
    assert "NVIDIA_TESLA_T4" in run(installed, "stoker", "accelerators").stdout, "its data came along"


def test_the_demo_runs_from_it(installed: dict[str, str]) -> None:
    done = run(installed, "sh", "examples/digits/demo.sh")
    assert done.returncode == 0 and "accuracy" in done.stdout, done.stdout + done.stderr


def test_the_bill_of_materials_names_what_it_brings_and_the_licences(dist: Path) -> None:
    found = json.loads((dist / "stoker.cdx.json").read_text())
    licences = {part["name"].lower(): part.get("licenses") for part in found["components"]}
    assert found["bomFormat"] == "CycloneDX" and {"fastapi", "sqlalchemy", "uvicorn"} <= licences.keys()
    assert not [name for name, known in licences.items() if not known and name != "stoker"]
    assert "tensorflow" not in licences and "pytest" not in licences, "what the wheel itself needs"
    assert list(dist.glob("*.tar.gz"))
