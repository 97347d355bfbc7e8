"""Megabytes that mean nothing: given up when there is hardly a byte left, taken on again when there is plenty."""

from __future__ import annotations

from pathlib import Path

from stoker.store.ballast import BALLAST_BYTES, Ballast


def test_it_is_taken_where_there_is_room_and_kept_until_there_is_none(tmp_path: Path) -> None:
    free = [1 << 40]
    ballast, file = Ballast(tmp_path, reserve_mb=64, free=lambda _: free[0]), tmp_path / "ballast.bin"
    ballast.take()
    assert file.stat().st_size == BALLAST_BYTES and not ballast.drop()
    assert file.stat().st_blocks * 512 >= BALLAST_BYTES, "it really takes the room"
    free[0] = 1000
    assert ballast.drop() and not file.exists() and not ballast.drop()
    ballast.take()
    assert not file.exists(), "there is no room for it"
    free[0] = 64_000_000 + 3 * BALLAST_BYTES
    ballast.take()
    assert file.exists() and [path.name for path in tmp_path.iterdir()] == ["ballast.bin"]


def test_a_home_that_is_not_there_yet_has_none(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "none", reserve_mb=0, free=lambda _: 1 << 40)
    ballast.take()
    assert not ballast.drop() and not (tmp_path / "none").exists()
