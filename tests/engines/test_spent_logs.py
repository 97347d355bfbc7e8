"""The replicas' own logs after their end: deleted when, and only when, the server has all lines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stoker.engines.local.replica_log import last_number
from stoker.engines.local.spent_logs import SpentLogs
from stoker.runtime.folder import Folder


def a_folder(runs: Path, lines: int, replica: str = "chief-0") -> Folder:
    folder = Folder(str(runs / "p" / "j.1" / replica))
    os.makedirs(folder.path, exist_ok=True)
    records = ({"n": n, "t": 1.0, "s": "out", "m": "x" * 100} for n in range(1, lines + 1))
    Path(folder.log_file).write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.mark.parametrize(("kept", "stays"), [(2000, False), (2001, False), (1999, True), (0, True)])
def test_only_what_the_server_has_is_deleted(tmp_path: Path, kept: int, stays: bool) -> None:
    asked: list[tuple[str, str]] = []

    def answer(attempt: str, replica: str) -> int:
        asked.append((attempt, replica))
        return kept

    folder = a_folder(tmp_path, 2000)
    spent = SpentLogs(tmp_path, answer)
    spent._waiting.append(folder)
    assert not spent.look()
    assert asked == [("p/j.1", "chief-0")] and os.path.exists(folder.log_file) == stays


def test_one_whose_supervisor_lives_waits(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, 10)
    spent = SpentLogs(tmp_path, lambda *_: 10)
    lock = folder.lock()
    assert lock is not None
    spent._waiting.append(folder)
    assert spent.look() and os.path.exists(folder.log_file)
    os.close(lock)
    assert not spent.look() and not os.path.exists(folder.log_file)


def test_the_last_number_is_that_of_the_last_record_that_is_whole(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, 3000)
    with open(folder.log_file, "a") as file:
        file.write('{"n": 9999, "t": 1.0, "s": "ou')
    assert last_number(folder.log_file) == 3000
    assert last_number(str(tmp_path / "nothing")) == 0
