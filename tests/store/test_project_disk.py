"""What the jobs of a project have left in the home."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.errors import NotReady
from stoker.store.project_disk import ProjectDisk

MB = 1 << 20


def left(home: Path, path: str, size: int = MB) -> Path:
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file


def a_disk(home: Path, most_mb: float) -> ProjectDisk:
    """Measured, without a thread."""
    disk = ProjectDisk(home, most_mb * MB, sleep=lambda _: None)
    disk.measure()
    disk._start = lambda: None  # type: ignore[method-assign]
    disk._is_measured.set()
    return disk


def test_logs_and_runs_of_a_project_count_together(tmp_path: Path) -> None:
    left(tmp_path, "logs/vision/j.jsonl")
    left(tmp_path, "runs/vision/j.1/chief-0/work/deep/model", 2 * MB)
    left(tmp_path, "runs/speech/k.1/chief-0/work/model", MB)
    disk = a_disk(tmp_path, 2.5)
    with pytest.raises(
        NotReady, match=r"the project vision have left 0\.00 GB here .* may leave 0\.00262144 GB"
    ) as refused:
        disk.check("vision")
    assert str(tmp_path / "runs" / "vision") in refused.value.fix and "project_disk_gb" in refused.value.fix
    disk.check("speech")
    disk.check("new")


def test_who_has_made_room_may_go_on(tmp_path: Path) -> None:
    file = left(tmp_path, "runs/vision/j.1/chief-0/work/model", 3 * MB)
    disk = a_disk(tmp_path, 2.5)
    with pytest.raises(NotReady):
        disk.check("vision")
    file.unlink()
    disk.measure()
    disk.check("vision")


def test_a_thread_measures_by_itself(tmp_path: Path) -> None:
    left(tmp_path, "runs/vision/j.1/chief-0/work/model", 3 * MB)
    with pytest.raises(NotReady):
        ProjectDisk(tmp_path, MB).check("vision")


def test_without_a_limit_nothing_is_measured(tmp_path: Path) -> None:
    left(tmp_path, "runs/vision/j.1/chief-0/work/model")
    disk = ProjectDisk(tmp_path, 0.0)
    disk.check("vision")
    assert disk._thread is None
