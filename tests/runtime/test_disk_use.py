"""How much folders hold: in steps, whatever is in them."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.engines.local.old_runs import remove
from stoker.runtime.disk_use import ENTRIES_AT_ONCE, LOOK_SECONDS, DiskLimit, measure

MB = 1 << 20


def size_of(*folders: Path) -> int:
    return [*measure(list(map(str, folders)))][-1]


def test_files_count_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (tmp_path / name).write_bytes(b"x" * MB)
    assert 3 * MB <= size_of(tmp_path) < 3.2 * MB
    assert size_of(tmp_path, tmp_path / "nothing") == size_of(tmp_path)


def test_links_are_not_followed_and_a_file_of_two_names_counts_once(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * MB)
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "big")
    (inside / "up").symlink_to("..")
    assert size_of(inside) < 0.1 * MB
    (inside / "first").write_bytes(b"x" * MB)
    os.link(inside / "first", inside / "second")
    assert MB <= size_of(inside) < 1.1 * MB


def test_a_file_full_of_holes_counts_what_it_takes(tmp_path: Path) -> None:
    with open(tmp_path / "holes", "wb") as file:
        file.truncate(1 << 40)
    assert size_of(tmp_path) < MB


def test_nothing_is_hidden_by_depth(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):  # deeper than any path may be long, and than files may be open
        os.mkdir("folder", dir_fd=here)
        below = os.open("folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with open(os.open("big", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(b"x" * MB)
    os.close(here)
    found = size_of(tmp_path)
    remove(tmp_path / "folder")
    assert found >= MB and not (tmp_path / "folder").exists()


def test_it_is_measured_in_steps(tmp_path: Path) -> None:
    for n in range(ENTRIES_AT_ONCE + 1):
        (tmp_path / str(n)).touch()
    assert len([*measure([str(tmp_path)])]) >= 2


def test_a_limit_is_looked_at_now_and_then(tmp_path: Path) -> None:
    now = [0.0]
    limit = DiskLimit([str(tmp_path)], 2 * MB, lambda: now[0])

    def looked() -> str:
        for _ in range(20):  # until it has been measured, in small steps
            if words := limit.look():
                return words
            now[0] += 0.2
        return ""

    assert looked() == ""
    (tmp_path / "big").write_bytes(b"x" * 3 * MB)
    assert limit.look() == "", "not yet"
    now[0] += LOOK_SECONDS
    assert looked() == (
        "its working directory and what else is its own hold 0.00 GB, and may hold 0.00209715 GB (job_disk_gb)"
    )
    assert DiskLimit([str(tmp_path)], 0.0, lambda: now[0]).look() == "", "0 is no limit"
