"""What docs/api.md and docs/sdk.md show does run, in the order in which it stands there."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.client import connection
from tests.conftest import Server

pytestmark = pytest.mark.live
FLAGS = ("--fake=4x4xT4",)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the programs that the pages name; the SDK at the home of the server."""
    (tmp_path / "train.py").write_text(
        "import sys\nprint('trained', sys.argv[1:])\nprint('warning', file=sys.stderr)\n"
    )
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/__init__.py").touch()
    (tmp_path / "trainer/task.py").write_text("print('trained')\n")
    (tmp_path / "config.yaml").write_text("trainingInput:\n  scaleTier: BASIC\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_HOME", str(server.home))
    yield tmp_path
    connection.use(None)


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_of_the_api(server: Server, folder: Path) -> None:
    setup, *steps = blocks("api.md", "sh")
    setup = re.sub(r"^(URL|TOKEN)=.*\n", "", setup, flags=re.MULTILINE)
    environment = {"PATH": os.environ["PATH"], "URL": server.found.url, "TOKEN": server.found.token}
    script = "\n".join(["set -eu", setup, *(f"{step}\necho; echo == {n}" for n, step in enumerate(steps))])
    done = subprocess.run(["bash", "-c", script], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second, _, _, resumed = done.stdout.split("\n== ")[:5]
    assert '"text": "hello"' in first and '"running_seconds"' in first and '"state": "SUCCEEDED"' in first
    assert second.rstrip().endswith("a line of data")
    assert '"kind": "end"' in resumed and '"kind": "log"' not in resumed
    assert len(steps) >= 5


def test_the_page_of_the_sdk(server: Server, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    shown = blocks("sdk.md", "python")
    for number, block in enumerate(shown):
        if "stoker.connect(" in block:
            block = block.replace("http://127.0.0.1:7077", server.found.url).replace("…", server.found.token)
        exec(compile(block, f"docs/sdk.md, block {number + 1}", "exec"), names)
    said = capsys.readouterr().out
    assert "trained ['--epochs', '3']" in said and "FAILED 7" in said and "model 8 gs://my-bucket/m/model" in said
    assert "bad_spec" in said and (folder / "model").read_text() == "weights\n"
    assert len(shown) >= 12
