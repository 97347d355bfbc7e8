"""`stoker local train`: no server, the program's own result. What it does is tested in tests/client/test_local_train.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def test_the_programs_result(cli: Cli, trainer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_ROLE", "-")
    monkeypatch.setenv("STOKER_INDEX", "-")
    words = ("local", "train", "--module-name", "trainer.task", "--package-path", "trainer", "--job-dir", "out")
    assert cli(*words, "--", "a").code == 0
    assert cli(*words, "--", "--fail").code == 7
    assert (cli.folder / "out/model.txt").read_text() == "trained"
    assert not cli.home.exists()


@pytest.mark.parametrize("flag", ["--worker-count=-1", "--start-port=0", "--start-port=70000", "--evaluator-count=x"])
def test_a_cluster_that_cannot_be(cli: Cli, flag: str) -> None:
    assert cli("local", "train", "--module-name", "x", "--distributed", flag).code == 2
