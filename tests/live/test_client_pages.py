"""What docs/clients/ shows does run, as it stands there: gcloud where it is installed, the Python clients always."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = [pytest.mark.live, pytest.mark.campaign]
ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/clients"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples, into which clients may write."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def blocks(page: str, *languages: str) -> list[str]:
    """The blocks of code of a page, in their order."""
    pattern = rf"^```(?:{'|'.join(languages)})\n(.*?)^```"
    return re.findall(pattern, (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)


def run(server: Server, script: str, folder: Path) -> str:
    """Run a script of the shell as a user would who has `stoker` on the PATH; its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = {"CLOUDSDK_CONFIG": str(folder / "gcloud"), "CLOUDSDK_CORE_DISABLE_PROMPTS": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={**server.environment, **quiet, "PATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def a_program(page: str, folder: Path) -> str:
    """The Python of a page as one program, and the shell's line to run it."""
    (folder / "program.py").write_text("\n".join(blocks(page, "python")))
    return 'eval "$(stoker env)"\npython -W ignore ../../program.py'


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed on this machine")
def test_the_page_of_gcloud(server: Server, folder: Path) -> None:
    said = run(server, "\n".join(blocks("gcloud.md", "sh")), folder)
    assert "Job [digits_gcloud] submitted successfully." in said
    assert re.search(r"master-replica-0.*accuracy 0\.\d+", said)
    assert "team: vision" in said
    assert "gs://my-staging/digits_gcloud/metrics.json" in said
    assert "The job has succeeded." in said
    assert "workerpool0-0" in said and "JOB_STATE_SUCCEEDED" in said
    metrics = json.loads((folder / "examples/digits/metrics.json").read_text())
    assert metrics["replicas"] == 2
    assert (server.home / "buckets/gs/my-staging/digits_custom/metrics.json").exists()


def test_the_page_of_ai_platform(server: Server, folder: Path) -> None:
    said = run(server, "cd examples/digits\n" + a_program("ai-platform.md", folder), folder)
    assert "QUEUED" in said and "SUCCEEDED {'consumedMLUnits':" in said
    assert '"replicas": 2' in said
    assert re.search(r"\[.*'digits_python'.*\]", said)


def test_the_page_of_the_vertex_sdk(server: Server, folder: Path) -> None:
    program = a_program("vertex.md", folder).replace("../../", "")
    said = run(server, f"{program}\n{blocks('vertex.md', 'sh')[1]}", folder)
    assert "JOB_STATE_SUCCEEDED" in said and "['pools']" in said
    assert "rank 0: 2 in all" in said and "rank 1:" in said
    assert list((server.home / "buckets/gs/my-staging/digits_vertex/checkpoints").iterdir())
