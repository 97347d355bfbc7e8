"""Whatever lies in a home in the place of its small files: made anew where nothing is lost, else named, with what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.api.auth import read_or_make_tokens
from stoker.app import build
from stoker.client import embedded
from stoker.clock import SystemClock
from stoker.config import read_config
from stoker.core.errors import EngineError, StokerError
from stoker.engines.local.isolation import _users_in
from stoker.gpu.drivers.fake import FakeDriver

JUNK = {
    "empty": b"",
    "short": b"{",
    "random": bytes(range(128, 256)) * 3,
    "nul": b"\x00" * 200,
    "binary and text": b"abcdefghijklmnopqrstuvwxyz\xff\xfe",
    "deep": b"[" * 100_000,
    "list": b"[1, 2]",
    "number": b"12345678901234567890123",
    "table": b'{"tokens": [[1]], "pid": -1, "url": 3}',
    "table of texts": b'{"tokens": "abc", "pid": 99999999999999999999999, "url": "http://h", "version": "1"}',
}
MADE_ANEW = ("server.json", "cache/server-url", "server.lock", "ballast.bin", "standby-1.json")
NAMED = ("replica.key", "token", "tokens.json", "objects.db", "stoker.db")


def start(home: Path) -> None:
    """Tie a Stoker together, as a start does."""
    made = build(read_config({"STOKER_HOME": str(home)}, flags={"hold": True}), driver=FakeDriver())
    try:
        made.take_over("http://127.0.0.1:1")
    finally:
        made.loop.stop()
        made.store.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One that was in use."""
    (tmp_path / "home").mkdir()
    start(tmp_path / "home")
    return tmp_path / "home"


@pytest.mark.parametrize("file", MADE_ANEW)
def test_where_nothing_is_lost_it_is_made_anew(home: Path, file: str) -> None:
    for content in JUNK.values():
        (home / file).write_bytes(content)
        assert embedded.find(read_config({"STOKER_HOME": str(home)})) is None
        assert embedded.standing_by(read_config({"STOKER_HOME": str(home)})) == []
        start(home)
    assert (home / "cache" / "server-url").read_text() == "http://127.0.0.1:1"


@pytest.mark.parametrize("file", NAMED)
def test_else_it_is_named_with_what_to_do(home: Path, file: str) -> None:
    for name, content in JUNK.items():
        for suffix in ("-wal", "-shm"):
            (home / f"{file}{suffix}").unlink(missing_ok=True)
        (home / file).write_bytes(content)
        try:
            start(home)
        except StokerError as error:
            assert str(home / file) in error.message + error.fix, (name, error.message)
            assert error.fix and "\n" not in error.message, name
        else:
            assert name in ("empty", "short", "deep", "list", "number", "table", "table of texts"), name


def test_the_text_of_a_secret_that_was_damaged_is_not_used(tmp_path: Path) -> None:
    first = read_or_make_tokens(tmp_path, SystemClock()).token
    (tmp_path / "token").write_bytes(b"")
    assert read_or_make_tokens(tmp_path, SystemClock()).token != first, "a crash has left it so"
    (tmp_path / "replica.key").write_bytes(os.urandom(64) + b"\xff")
    with pytest.raises(StokerError, match=r"replica\.key is damaged"):
        read_or_make_tokens(tmp_path, SystemClock())


@pytest.mark.parametrize("content", JUNK.values(), ids=JUNK)
def test_settings_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    try:
        read_config({"STOKER_HOME": str(tmp_path)})
    except StokerError as error:
        assert str(tmp_path / "config.yaml") in error.message and error.fix
    else:
        assert not content


def test_a_date_that_there_is_not_is_no_setting(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("port: 2026-99-99")
    with pytest.raises(StokerError, match=r"config\.yaml"):
        read_config({"STOKER_HOME": str(tmp_path)})


@pytest.mark.parametrize("content", JUNK.values(), ids=JUNK)
def test_a_list_of_users_that_cannot_be_read_gives_nobody_anothers_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "job-users.json").write_bytes(content)
    with pytest.raises(EngineError, match=r"job-users\.json is damaged"):
        _users_in(tmp_path / "job-users.json")
