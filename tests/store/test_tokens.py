"""Tokens of users: kept as hashes, good for as long as was said, gone when they are revoked."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from stoker.clock import ManualClock
from stoker.core.errors import AlreadyExists, BadSpec, NotFound, Unavailable
from stoker.store.tokens import TokenBook, digest

DAY = 86400.0


@pytest.fixture
def book(tmp_path: Path, clock: ManualClock) -> TokenBook:
    return TokenBook(tmp_path / "tokens.json", clock)


def test_a_token_is_told_once_and_kept_as_a_hash(book: TokenBook, tmp_path: Path, clock: ManualClock) -> None:
    text, made = book.create("ada", projects=("vision",), buckets=("vision-data",))
    path = tmp_path / "tokens.json"
    assert text not in path.read_text() and digest(text) in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = TokenBook(path, clock).find(text)
    assert found is not None and found.name == "ada" and found.projects == ("vision",) and found.sha256 == made.sha256


def test_what_was_never_made_is_not_found(book: TokenBook) -> None:
    text, made = book.create("ada")
    for shown in ("", text[:-1], text + "x", made.sha256, text.upper(), "x" * 10_000):
        assert book.find(shown) is None


def test_it_is_good_for_as_long_as_was_said(book: TokenBook, clock: ManualClock) -> None:
    text, _ = book.create("ada", days=2)
    clock.advance(2 * DAY - 1)
    assert book.find(text) is not None
    clock.advance(1)
    assert book.find(text) is None
    assert [token.name for token in book.tokens()] == ["ada"], "it is still listed, and can be revoked"


def test_a_revoked_one_is_gone_after_a_restart_as_well(book: TokenBook, tmp_path: Path, clock: ManualClock) -> None:
    text, _ = book.create("ada")
    book.create("bob")
    book.revoke("ada")
    assert book.find(text) is None
    assert TokenBook(tmp_path / "tokens.json", clock).find(text) is None
    with pytest.raises(NotFound):
        book.revoke("ada")


def test_when_it_was_last_used_is_known(book: TokenBook, tmp_path: Path, clock: ManualClock) -> None:
    text, _ = book.create("ada")
    assert book.tokens()[0].last_used_at is None
    clock.advance(1000)
    book.find(text)
    assert book.tokens()[0].last_used_at == clock.now()
    assert TokenBook(tmp_path / "tokens.json", clock).tokens()[0].last_used_at == clock.now()


def test_a_name_has_one_token(book: TokenBook) -> None:
    book.create("ada")
    with pytest.raises(AlreadyExists, match="ada"):
        book.create("ada")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Ada"}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "attempt p/j.1"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"days": 0}, "days"),
        ({"days": -1}, "days"),
        ({"days": 1e9}, "days"),
        ({"days": float("nan")}, "days"),
        ({"projects": ("a/b",)}, "projects"),
        ({"projects": ("p",), "buckets": ("B",)}, "buckets"),
        ({"buckets": ("some-bucket",)}, "buckets"),
        ({"is_admin": True, "projects": ("p",)}, "projects"),
    ],
)
def test_what_cannot_be_one_is_refused(book: TokenBook, asked: dict[str, Any], field: str) -> None:
    with pytest.raises(BadSpec) as refused:
        book.create(**{"name": "ada", **asked})
    assert [violation.field for violation in refused.value.violations] == [field]
    assert book.tokens() == []


@pytest.mark.parametrize("left", ["", "{", "[]", '{"tokens": [{"name": "ada"}]}', '{"tokens": 1}', json.dumps({})])
def test_a_file_that_cannot_be_read_is_no_empty_book(tmp_path: Path, clock: ManualClock, left: str) -> None:
    """Whoever was revoked would be let in again by a book that is written anew, and users be locked out without a word."""
    (tmp_path / "tokens.json").write_text(left)
    with pytest.raises(Unavailable, match=r"tokens\.json"):
        TokenBook(tmp_path / "tokens.json", clock)


def test_another_server_of_the_home_sees_at_once_what_was_written_and_brings_nothing_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "tokens.json"
    leader = TokenBook(path, clock)
    ada, _ = leader.create("ada")
    other = TokenBook(path, clock, writes=lambda: False)
    assert other.find(ada) is not None
    leader.revoke("ada")
    fay, _ = leader.create("fay")
    clock.advance(1000.0)
    before = path.read_bytes()
    assert other.find(ada) is None and other.find(fay) is not None
    assert [token.name for token in other.tokens()] == ["fay"]
    assert path.read_bytes() == before, "who stands by writes nothing, not even when a token was used"


def test_nobody_becomes_whom_the_server_stands_for(tmp_path: Path, clock: ManualClock) -> None:
    book = TokenBook(tmp_path / "tokens.json", clock, reserved={"root"})
    with pytest.raises(BadSpec, match="root"):
        book.create("root")
