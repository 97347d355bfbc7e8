"""Uploads that are continued: by offset, after a restart, until they are too old."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.clock import ManualClock
from stoker.core.errors import BadSpec, NotFound, PreconditionFailed, Unavailable
from stoker.store.files import Files
from stoker.store.objects.hashes import Digest, Hashes
from stoker.store.objects.object import Asked, Conditions, Said
from stoker.store.objects.objects import Objects
from stoker.store.objects.uploads import KEPT_SECONDS, Upload, Uploads


def an_uploads(home: Path, clock: ManualClock | None = None) -> Uploads:
    objects = Objects(Files(home / "buckets", buckets={}, keep_buckets_here=True), home)
    return Uploads(home / "uploads", objects, clock or ManualClock())


def begin(uploads: Uploads, name: str = "a", **asked: Any) -> Upload:
    return uploads.begin("a-bucket", Asked(name=name, **asked))


def hidden(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*.part"))


def test_blocks_become_the_object(tmp_path: Path) -> None:
    uploads = an_uploads(tmp_path)
    upload = begin(uploads, "d/a", said=Said(content_type="text/x"))
    assert uploads.get(upload.id) == upload and uploads.received(upload.id) == 0
    uploads.append(upload.id, 0, b"0123")
    uploads.append(upload.id, 4, b"4567")
    assert uploads.received(upload.id) == 8
    made = uploads.finish(upload.id, Hashes())
    assert (tmp_path / "buckets/gs/a-bucket/d/a").read_bytes() == b"01234567"
    assert made.said.content_type == "text/x" and uploads.get(upload.id).is_done and not hidden(tmp_path)
    for use in (lambda: uploads.append(upload.id, 8, b"8"), lambda: uploads.finish(upload.id, Hashes())):
        with pytest.raises(NotFound, match="is done"):
            use()


def test_a_block_is_taken_once(tmp_path: Path) -> None:
    uploads = an_uploads(tmp_path)
    upload = begin(uploads)
    for at, block in ((0, b"0123"), (0, b"0123"), (2, b"2345"), (1, b"12")):
        uploads.append(upload.id, at, block)
    with pytest.raises(BadSpec, match="6 have come so far"):
        uploads.append(upload.id, 7, b"7")
    uploads.finish(upload.id, Hashes())
    assert (tmp_path / "buckets/gs/a-bucket/a").read_bytes() == b"012345"


@settings(max_examples=40, deadline=None)
@given(
    content=st.binary(max_size=400), steps=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 120), st.booleans()))
)
def test_whatever_is_sent_twice_or_interrupted_comes_out_whole(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, steps: list[tuple[int, int, bool]]
) -> None:
    """A client sends blocks from anywhere at or before the end, some of them again, and the server restarts now and then."""
    home = tmp_path_factory.mktemp("home")
    uploads = an_uploads(home)
    upload = begin(uploads)
    for at, length, restarts in steps:
        at = min(at, uploads.received(upload.id))
        uploads.append(upload.id, at, content[at : at + length])
        if restarts:
            uploads = an_uploads(home)
    received = uploads.received(upload.id)
    uploads.append(upload.id, received, content[received:])
    digest = Digest()
    digest.update(content)
    made = uploads.finish(upload.id, digest.hashes)
    assert made.hashes == digest.hashes and (home / "buckets/gs/a-bucket/a").read_bytes() == content


def test_a_restart_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    upload = begin(an_uploads(tmp_path), hashes=Hashes(md5="eB5eJF1ptWaXm4bijSPyxw=="))
    an_uploads(tmp_path).append(upload.id, 0, b"01234")
    again = an_uploads(tmp_path)
    assert again.received(upload.id) == 5
    again.append(upload.id, 5, b"56789")
    assert an_uploads(tmp_path).finish(upload.id, Hashes(crc32c="KAwGng==")).size == 10
    assert an_uploads(tmp_path).get(upload.id).is_done


def test_many_who_send_the_same_do_no_harm(tmp_path: Path) -> None:
    uploads = an_uploads(tmp_path)
    upload, content = begin(uploads), bytes(range(256)) * 200

    def send() -> None:
        for at in range(0, len(content), 1000):
            uploads.append(upload.id, at, content[at : at + 1000])

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    uploads.finish(upload.id, Hashes())
    assert (tmp_path / "buckets/gs/a-bucket/a").read_bytes() == content


def test_a_part_that_somebody_takes_away_is_noticed(tmp_path: Path) -> None:
    uploads = an_uploads(tmp_path)
    upload = begin(uploads)
    uploads.append(upload.id, 0, b"half")
    (tmp_path / "buckets/gs/a-bucket" / upload.part).unlink()
    with pytest.raises(Unavailable, match="cannot be written"):
        uploads.append(upload.id, 4, b"the rest")
    assert uploads.received(upload.id) == 0, "it begins anew"
    uploads.append(upload.id, 0, b"the whole")
    (tmp_path / "buckets/gs/a-bucket" / upload.part).write_bytes(b"")
    with pytest.raises(Unavailable, match="is gone"):
        uploads.append(upload.id, 9, b"!")
    uploads.append(upload.id, 0, b"the whole")
    uploads.finish(upload.id, Hashes())
    assert (tmp_path / "buckets/gs/a-bucket/a").read_bytes() == b"the whole"


@pytest.mark.parametrize("where", ["before", "at the end"])
def test_a_damaged_content_ends_the_upload(tmp_path: Path, where: str) -> None:
    uploads, wrong = an_uploads(tmp_path), Hashes(crc32c="AAAAAA==")
    upload = begin(uploads, hashes=wrong if where == "before" else Hashes())
    uploads.append(upload.id, 0, b"content")
    with pytest.raises(BadSpec, match="nothing was written"):
        uploads.finish(upload.id, wrong)
    assert not (tmp_path / "buckets/gs/a-bucket/a").exists() and not hidden(tmp_path)
    with pytest.raises(NotFound):
        uploads.get(upload.id)


def test_conditions_hold_at_the_beginning_and_at_the_end(tmp_path: Path) -> None:
    uploads, must_be_new = an_uploads(tmp_path), Conditions(generation_match=0)
    first, second = (begin(uploads, conditions=must_be_new) for _ in range(2))
    uploads.append(first.id, 0, b"first")
    uploads.finish(first.id, Hashes())
    uploads.append(second.id, 0, b"second")
    with pytest.raises(PreconditionFailed):
        uploads.finish(second.id, Hashes())
    with pytest.raises(PreconditionFailed):
        begin(uploads, conditions=must_be_new)
    assert (tmp_path / "buckets/gs/a-bucket/a").read_bytes() == b"first" and not hidden(tmp_path)


def test_a_cancelled_upload_leaves_nothing(tmp_path: Path) -> None:
    uploads = an_uploads(tmp_path)
    upload = begin(uploads)
    uploads.append(upload.id, 0, b"half")
    uploads.cancel(upload.id)
    for use in (uploads.get, uploads.cancel, lambda id: uploads.append(id, 4, b"late")):
        with pytest.raises(NotFound):
            use(upload.id)
    assert not hidden(tmp_path) and not list((tmp_path / "uploads").iterdir())


@pytest.mark.parametrize("id", ["", "x", "../../server", "a" * 43, "\x00" * 43])
def test_what_is_no_upload_is_not_found(tmp_path: Path, id: str) -> None:
    uploads = an_uploads(tmp_path)
    for use in (uploads.get, uploads.received, uploads.cancel):
        with pytest.raises(NotFound):
            use(id)


def test_an_upload_is_kept_for_a_week(tmp_path: Path) -> None:
    clock = ManualClock()
    uploads = an_uploads(tmp_path, clock)
    old, done = begin(uploads, "old"), begin(uploads, "done")
    uploads.append(old.id, 0, b"half")
    uploads.finish(done.id, Hashes())
    clock.advance(KEPT_SECONDS - 1)
    young = begin(uploads, "young")
    assert uploads.get(old.id) and uploads.get(done.id)
    clock.advance(KEPT_SECONDS / 2)
    begin(uploads, "another")
    for gone in (old, done):
        with pytest.raises(NotFound):
            uploads.get(gone.id)
    assert uploads.get(young.id) and (tmp_path / "buckets/gs/a-bucket/done").exists()
    assert sum(name.startswith(".old.") for name in hidden(tmp_path)) == 0


def test_a_name_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    uploads = an_uploads(tmp_path)
    uploads.finish(begin(uploads, "a/b").id, Hashes())
    for name in ("a", "a/b/c", "../x", "n" * 300):
        with pytest.raises(BadSpec):
            begin(uploads, name)
