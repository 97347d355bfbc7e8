"""The objects of buckets: what they are, how they are listed, that programs may change their files at any time."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import AlreadyExists, BadSpec, Conflict, NotFound, PreconditionFailed, Unimplemented
from stoker.store.files import Files
from stoker.store.objects.bucket import Bucket
from stoker.store.objects.hashes import Digest, Hasher, Hashes
from stoker.store.objects.listing import Wanted, page
from stoker.store.objects.object import Asked, Conditions, Object, Said
from stoker.store.objects.objects import Objects, Source
from tests.store.cloud import FakeCloud

ALWAYS = Conditions()


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    files = Files(tmp_path / "buckets", buckets={"mapped": str(tmp_path / "data")}, keep_buckets_here=True)
    return Objects(files, tmp_path)


@pytest.fixture
def local(objects: Objects) -> Bucket:
    return objects.bucket("a-bucket")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "buckets/gs/a-bucket"


@pytest.fixture
def cloud(tmp_path: Path) -> Bucket:
    made = FakeCloud()
    return Objects(Files(tmp_path, buckets={}, keep_buckets_here=False, cloud=lambda _: made), tmp_path).bucket(
        "a-bucket"
    )


@pytest.fixture(params=["local", "cloud"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Every kind of bucket."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


def put(bucket: Bucket, name: str, content: bytes = b"x", **asked: Any) -> Object:
    with bucket.write(name) as part:
        for at in range(0, len(content), 1000):
            part.write(content[at : at + 1000])
        return bucket.commit(part, Asked(name=name, **asked))


def content_of(bucket: Bucket, name: str) -> bytes:
    with bucket.read(name) as (found, file):
        content = file.read()
        assert len(content) == found.size
    return content


def names(bucket: Bucket, **wanted: Any) -> tuple[list[str], list[str]]:
    found = bucket.list(Wanted(**wanted))
    return [one.name for one in found.objects], list(found.prefixes)


def hashes_of(content: bytes) -> Hashes:
    crc32c = google_crc32c.value(content).to_bytes(4, "big")
    md5 = hashlib.md5(content).digest()
    return Hashes(crc32c=base64.b64encode(crc32c).decode(), md5=base64.b64encode(md5).decode())


# Every bucket


def test_what_was_written_is_read(bucket: Bucket) -> None:
    content = bytes(range(256)) * 100
    made = put(bucket, "a/b c/ü#?%.bin", content)
    assert (made.name, made.size, made.bucket) == ("a/b c/ü#?%.bin", len(content), "a-bucket")
    assert content_of(bucket, made.name) == content
    assert bucket.find(made.name) is not None and bucket.find("a") is None and bucket.find("a/b") is None


def test_of_what_is_not_there(bucket: Bucket) -> None:
    for use in (bucket.stat, lambda name: bucket.delete(name, ALWAYS), lambda name: content_of(bucket, name)):
        with pytest.raises(NotFound):
            use("nothing")
    assert names(bucket) == ([], [])


def test_a_write_that_fails_leaves_what_was_there(bucket: Bucket) -> None:
    put(bucket, "a", b"old")
    with pytest.raises(RuntimeError), bucket.write("a") as part:
        part.write(b"half")
        raise RuntimeError
    assert content_of(bucket, "a") == b"old" and names(bucket) == (["a"], [])


def test_a_damaged_content_is_not_written(bucket: Bucket) -> None:
    good = hashes_of(b"content")
    for wrong, field in ((replace(good, crc32c="AAAAAA=="), "crc32c"), (replace(good, md5="A" * 22 + "=="), "md5Hash")):
        with pytest.raises(BadSpec) as refused:
            put(bucket, "a", b"content", hashes=wrong)
        assert [v.field for v in refused.value.violations] == [field]
    assert bucket.find("a") is None
    put(bucket, "a", b"content", hashes=good)


def test_conditions_of_a_write(bucket: Bucket) -> None:
    must_be_new = Conditions(generation_match=0)
    made = put(bucket, "a", b"1", conditions=must_be_new)
    with pytest.raises(PreconditionFailed):
        put(bucket, "a", b"2", conditions=must_be_new)
    with pytest.raises(PreconditionFailed):
        put(bucket, "a", b"2", conditions=Conditions(generation_match=made.generation + 1))
    with pytest.raises(PreconditionFailed):
        put(bucket, "new", b"2", conditions=Conditions(generation_not_match=0))
    assert content_of(bucket, "a") == b"1"
    put(bucket, "a", b"2", conditions=Conditions(generation_match=made.generation))


def test_conditions_of_a_delete(bucket: Bucket) -> None:
    made = put(bucket, "a")
    with pytest.raises(PreconditionFailed):
        bucket.delete("a", Conditions(generation_match=made.generation + 1))
    bucket.delete("a", Conditions(generation_match=made.generation))
    assert bucket.find("a") is None


def test_lists_by_prefix_and_delimiter(bucket: Bucket) -> None:
    for name in ("a/1", "a/b/2", "a-b", "c"):
        put(bucket, name)
    assert names(bucket) == (["a-b", "a/1", "a/b/2", "c"], [])
    assert names(bucket, delimiter="/") == (["a-b", "c"], ["a/"])
    assert names(bucket, prefix="a", delimiter="/") == (["a-b"], ["a/"])
    assert names(bucket, prefix="a/", delimiter="/") == (["a/1"], ["a/b/"])
    assert names(bucket, prefix="a/b") == (["a/b/2"], [])
    assert names(bucket, delimiter="b") == (["a/1", "c"], ["a-b", "a/b"])
    assert names(bucket, start="a/", end="c") == (["a/1", "a/b/2"], [])


def test_moves(bucket: Bucket) -> None:
    put(bucket, "a", b"content")
    moved = bucket.move("a", "b/c", source=ALWAYS, target=ALWAYS)
    assert (moved.name, moved.size) == ("b/c", 7) and content_of(bucket, "b/c") == b"content"
    assert bucket.find("a") is None
    with pytest.raises(PreconditionFailed):
        bucket.move("b/c", "d", source=Conditions(generation_match=1), target=ALWAYS)
    with pytest.raises(NotFound):
        bucket.move("a", "d", source=ALWAYS, target=ALWAYS)


def test_a_part_that_stays_becomes_an_object(bucket: Bucket, tmp_path: Path) -> None:
    part = bucket.begin("a", tmp_path / "uploads")
    part.write(b"content")
    assert bucket.commit(part, Asked(name="a")).size == 7
    assert content_of(bucket, "a") == b"content" and not part.root.is_file(part.name)


@pytest.mark.parametrize("name", ["", "../a", "/a", "a/../../b", "a\\b", "a\x00b", "\ud800", "n" * 1025])
def test_no_name_leads_out(local: Bucket, name: str) -> None:
    for use in (
        local.stat,
        lambda name: put(local, name),
        lambda name: content_of(local, name),
        lambda name: local.delete(name, ALWAYS),
        lambda name: local.move("a", name, source=ALWAYS, target=ALWAYS),
        lambda name: local.move(name, "a", source=ALWAYS, target=ALWAYS),
    ):
        with pytest.raises(BadSpec):
            use(name)


# A folder of this machine


def test_hashes_of_an_upload_are_known_at_once(local: Bucket) -> None:
    made = put(local, "a", b"content")
    assert made.hashes == hashes_of(b"content") and local.stat("a") == made


def test_hashes_of_a_program_s_file_are_computed_and_kept(local: Bucket, folder: Path) -> None:
    write(folder / "a", b"content")
    assert local.stat("a").hashes == Hashes()
    assert local.stat("a", hash_seconds=9).hashes == hashes_of(b"content")
    assert local.stat("a").hashes == hashes_of(b"content"), "kept"
    with local.read("a") as (found, _):
        assert found.hashes == hashes_of(b"content")


def test_a_reader_waits_for_the_fast_hash_alone(local: Bucket, folder: Path) -> None:
    write(folder / "a", b"content")
    with local.read("a", hash_seconds=9) as (found, _):
        assert found.hashes == replace(hashes_of(b"content"), md5="")
    assert local.stat("a", hash_seconds=9).hashes == hashes_of(b"content")


def test_hashes_of_a_file_that_was_just_written_are_not_kept(local: Bucket, folder: Path) -> None:
    write(folder / "a", b"content", ago=0)
    assert local.stat("a", hash_seconds=9).hashes == hashes_of(b"content")
    assert local.stat("a").hashes == Hashes(), "it may be written again within the same tick of the file system's clock"


def test_hashes_are_forgotten_when_a_program_writes(local: Bucket, folder: Path) -> None:
    put(local, "a", b"content", said=Said(content_type="text/x"))
    write(folder / "a", b"another")
    found = local.stat("a", hash_seconds=9)
    assert found.hashes == hashes_of(b"another") and found.said == Said()


def test_every_content_has_a_generation_of_its_own(local: Bucket, folder: Path) -> None:
    generations = [put(local, "a", b"1").generation, put(local, "a", b"1").generation]
    write(folder / "a", b"2")
    generations.append(local.stat("a").generation)
    assert local.stat("a").generation == generations[-1]
    write(folder / "a", b"3", ago=1e6)  # an older file is put there
    generations.append(local.stat("a").generation)
    local.delete("a", ALWAYS)
    generations.append(put(local, "a", b"4").generation)
    assert generations == sorted(set(generations))


def test_a_generation_survives_a_restart(objects: Objects, local: Bucket, tmp_path: Path, folder: Path) -> None:
    put(local, "a", b"1", said=Said(content_type="text/x", metadata={"k": "v"}))
    write(folder / "b", b"2", ago=1e6)
    before = [local.stat("a"), local.stat("b")]
    again = Objects(Files(tmp_path / "buckets", buckets={}, keep_buckets_here=True), tmp_path).bucket("a-bucket")
    assert [again.stat("a"), again.stat("b")] == before


def test_what_is_said_changes_the_metageneration_alone(local: Bucket) -> None:
    made = put(local, "a", said=Said(content_type="text/x"))
    changed = local.say("a", lambda said: replace(said, metadata={"k": "v"}), Conditions(metageneration_match=1))
    assert (changed.generation, changed.metageneration, changed.hashes) == (made.generation, 2, made.hashes)
    assert changed.said == Said(content_type="text/x", metadata={"k": "v"}) and changed.etag != made.etag
    with pytest.raises(PreconditionFailed):
        local.say("a", lambda said: said, Conditions(metageneration_match=1))


def test_files_that_are_being_written_are_nobody_s_to_see(local: Bucket, folder: Path) -> None:
    with local.write("d/a") as part:
        part.write(b"half")
        (hidden,) = os.listdir(folder / "d")
        assert names(local) == ([], []) == names(local, delimiter="/")
        for use in (local.stat, lambda name: content_of(local, name), lambda name: local.delete(name, ALWAYS)):
            with pytest.raises(NotFound):
                use(f"d/{hidden}")
        with pytest.raises(BadSpec, match="still being written"):
            put(local, f"d/{hidden}")
    assert os.listdir(folder / "d") == []


def test_an_empty_folder_is_nothing(local: Bucket, folder: Path) -> None:
    (folder / "a/b/c").mkdir(parents=True)
    assert names(local) == ([], []) == names(local, delimiter="/") and local.find("a") is None is local.find("a/")
    put(local, "a", b"content")
    assert content_of(local, "a") == b"content", "it gives way"


def test_a_folder_with_objects_is_not_replaced(local: Bucket) -> None:
    put(local, "a/b")
    for name in ("a", "a/b/c"):
        with pytest.raises(BadSpec, match="choose another name"), local.write(name):
            pass
    with local.write("new") as part:
        put(local, "new/b")  # meanwhile
        with pytest.raises(BadSpec, match="choose another name"):
            local.commit(part, Asked(name="new"))


def test_an_object_that_stands_for_a_folder(local: Bucket, folder: Path) -> None:
    made = put(local, "a/", b"")
    assert (folder / "a").is_dir() and (made.name, made.size, made.hashes) == ("a/", 0, hashes_of(b""))
    put(local, "a/b")
    assert local.stat("a/") == made and content_of(local, "a/") == b""
    assert names(local) == (["a/", "a/b"], [])
    assert names(local, prefix="a/", delimiter="/") == (["a/", "a/b"], [])
    assert names(local, delimiter="/") == ([], ["a/"])
    assert names(local, delimiter="/", with_folders=True) == (["a/"], ["a/"])
    with pytest.raises(BadSpec, match="no content of its own"):
        put(local, "a/", b"x")
    local.delete("a/", ALWAYS)
    assert names(local) == (["a/b"], []) and local.find("a/") is None


def test_doubled_slashes_lead_to_the_same_file(local: Bucket) -> None:
    made = put(local, "a//b", b"content")
    assert made.name == "a//b" and local.stat("a/b") == replace(made, name="a/b")
    assert local.stat("a///b").name == "a///b" and names(local) == (["a/b"], [])
    local.delete("a//b", ALWAYS)
    assert local.find("a/b") is None


def test_links(local: Bucket, folder: Path, tmp_path: Path) -> None:
    put(local, "d/file", b"content")
    (tmp_path / "secret").write_text("s")
    (folder / "inside").symlink_to(folder / "d/file")
    (folder / "outside").symlink_to(tmp_path / "secret")
    (folder / "broken").symlink_to(folder / "nowhere")
    (folder / "circle").symlink_to(folder)
    assert names(local) == (["d/file", "inside"], [])
    assert content_of(local, "inside") == b"content"
    with pytest.raises(BadSpec, match="through a link"):
        local.stat("outside")


def test_what_is_no_object_is_not_listed(local: Bucket, folder: Path) -> None:
    put(local, "a")
    os.mkfifo(folder / "pipe")
    for name in (b"\xff\xfe", b"back\\slash", b"C:drive", b"..%2fup"):
        open(os.path.join(os.fsencode(folder), name), "w").close()
    assert names(local) == (["a"], [])
    with pytest.raises(NotFound):
        content_of(local, "pipe")


def test_a_long_part_of_a_name_is_refused(local: Bucket) -> None:
    with pytest.raises(BadSpec, match="255"):
        put(local, "d/" + "n" * 256)
    assert local.find("d/" + "n" * 256) is None
    put(local, "ü" * 120)  # of 240 bytes: that of its part is cut, by bytes


def test_a_file_that_is_replaced_while_it_is_read(local: Bucket) -> None:
    put(local, "a", b"old")
    with local.read("a") as (found, file):
        put(local, "a", b"newer")
        assert file.read() == b"old" and found.size == 3
    assert content_of(local, "a") == b"newer"


def test_records_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "objects.db").write_text("no database" * 100)
    with pytest.raises(Exception, match=r"objects\.db cannot be used") as refused:
        Objects(Files(tmp_path, buckets={}, keep_buckets_here=True), tmp_path)
    assert "move it away" in getattr(refused.value, "fix", "")


def write(path: Path, content: bytes, *, ago: float = 60.0) -> None:
    """As a program does: in place, some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - ago, time.time() - ago))


# Listing, page by page

SOME_NAMES = st.lists(
    st.lists(st.sampled_from(["a", "b", "a-b", "a.b", "a b", "ab", "ü", "A", "0", "a0"]), min_size=1, max_size=4).map(
        "/".join
    ),
    max_size=20,
    unique=True,
)
PREFIXES = st.sampled_from(["", "a", "a/", "a/b", "a/b/", "ab", "ü", "x", "a-"])
OFFSETS = st.sampled_from(["", "a", "a/", "a/b", "a0", "b", "ü/a"])


@settings(max_examples=100, deadline=None)
@given(
    found=SOME_NAMES,
    prefix=PREFIXES,
    delimiter=st.sampled_from(["", "/", "b", "-", "/a"]),
    start=OFFSETS,
    end=OFFSETS,
    limit=st.integers(1, 5),
)
def test_pages_of_a_folder_are_those_of_cloud_storage(
    tmp_path_factory: pytest.TempPathFactory, found: list[str], limit: int, **bounds: str
) -> None:
    """A folder is listed as a plain sorted list of names would be, whatever the size of the pages."""
    home = tmp_path_factory.mktemp("listing")
    bucket = Objects(Files(home, buckets={}, keep_buckets_here=True), home).bucket("a-bucket")
    kept = [name for name in found if not any(other.startswith(name + "/") for other in found)]
    for name in kept:
        write(home / "gs/a-bucket" / name, b"")
    wanted = Wanted(limit=limit, **bounds)
    pages = [bucket.list(wanted)]
    while pages[-1].next:
        pages.append(bucket.list(replace(wanted, after=pages[-1].next)))
        assert 0 < len(pages[-1].objects) + len(pages[-1].prefixes) <= limit
    expected = model(kept, **bounds)
    assert ([o.name for p in pages for o in p.objects], [x for p in pages for x in p.prefixes]) == expected


def model(names: list[str], prefix: str, delimiter: str, start: str, end: str) -> tuple[list[str], list[str]]:
    """What Cloud Storage's documents say."""
    inside = [n for n in sorted(names, key=str.encode) if n.startswith(prefix) and n >= start and (not end or n < end)]
    cut = {n: n.find(delimiter, len(prefix)) if delimiter else -1 for n in inside}
    prefixes = {n[: at + len(delimiter)] for n, at in cut.items() if at >= 0}
    return [n for n, at in cut.items() if at < 0], sorted(prefixes, key=str.encode)


def test_a_page_ends_where_it_is_full() -> None:
    wanted = Wanted(delimiter="/", limit=2)
    first = page(iter(["a", "b/1", "b/2", "c"]), wanted)
    assert (first.names, first.prefixes, first.next) == (["a"], ["b/"], "b/")
    rest = page(iter(["b/2", "c"]), replace(wanted, after=first.next))
    assert (rest.names, rest.prefixes, rest.next) == (["c"], [], "")


def test_a_folder_deeper_than_python_s_calls_is_listed(local: Bucket, folder: Path) -> None:
    deep = folder
    folder.mkdir(parents=True)
    try:
        for _ in range(1200):
            deep = deep / "d"
            deep.mkdir()
        (deep / "file").touch()
        assert names(local) == (["d/" * 1200 + "file"], [])
    finally:
        subprocess.run(["rm", "-r", folder / "d"])  # pytest's own cleaning goes no deeper than Python's calls


# Of all buckets


def test_buckets_are_there_as_soon_as_they_are_named(objects: Objects, tmp_path: Path) -> None:
    assert objects.buckets() == ["mapped"]
    put(objects.bucket("another"), "a")
    assert objects.buckets() == ["another", "mapped"]
    put(objects.bucket("mapped"), "a")
    assert (tmp_path / "data/a").exists()
    with pytest.raises(BadSpec, match="not a bucket name"):
        objects.bucket("No")


def test_buckets_are_made_and_removed(objects: Objects) -> None:
    objects.make_bucket("new-one")
    with pytest.raises(AlreadyExists):
        objects.make_bucket("new-one")
    put(objects.bucket("new-one"), "a/b")
    with pytest.raises(Conflict, match="not empty"):
        objects.remove_bucket("new-one")
    objects.bucket("new-one").delete("a/b", ALWAYS)
    objects.remove_bucket("new-one")
    with pytest.raises(NotFound):
        objects.remove_bucket("new-one")
    with pytest.raises(BadSpec, match="setting"):
        objects.remove_bucket("mapped")


def test_copies_are_of_their_sources(objects: Objects, local: Bucket) -> None:
    made = put(local, "a", b"one", said=Said(content_type="text/x"))
    put(objects.bucket("another"), "b", b"two")
    sources = [Source(bucket="a-bucket", name="a"), Source(bucket="another", name="b")]
    both = objects.copy(sources, "another", Asked(name="both"))
    assert content_of(objects.bucket("another"), "both") == b"onetwo" and both.hashes == hashes_of(b"onetwo")
    stale = Source(bucket="a-bucket", name="a", conditions=Conditions(generation_match=made.generation + 1))
    with pytest.raises(PreconditionFailed):
        objects.copy([stale], "another", Asked(name="c"))
    with pytest.raises(NotFound):
        objects.copy([Source(bucket="a-bucket", name="none")], "another", Asked(name="c"))
    assert names(objects.bucket("another")) == (["b", "both"], [])


def test_an_object_is_copied_onto_itself(objects: Objects, local: Bucket) -> None:
    put(local, "a", b"one")
    objects.copy([Source(bucket="a-bucket", name="a")], "a-bucket", Asked(name="a", said=Said(content_type="x/y")))
    assert content_of(local, "a") == b"one" and local.stat("a").said.content_type == "x/y"


def test_a_bucket_of_the_cloud_is_made_there(tmp_path: Path, cloud: Bucket) -> None:
    with pytest.raises(Unimplemented):
        cloud.say("a", lambda said: said, ALWAYS)
    objects = Objects(Files(tmp_path, buckets={}, keep_buckets_here=False), tmp_path)
    for use in (objects.make_bucket, objects.remove_bucket):
        with pytest.raises(BadSpec, match="bucket of the cloud"):
            use("some-bucket")


# Hashes


@given(st.lists(st.binary(max_size=1000), max_size=6))
def test_a_digest_does_not_care_for_blocks(blocks: list[bytes]) -> None:
    digest, content = Digest(), b"".join(blocks)
    for block in blocks:
        digest.update(block)
    assert digest.hashes == hashes_of(content) and digest.size == len(content)


def test_a_large_file_is_hashed_over_several_asks(tmp_path: Path) -> None:
    content = os.urandom(5 << 20)
    (tmp_path / "large").write_bytes(content)
    ticks: Callable[[], float] = iter(range(1000)).__next__  # a second goes by each time somebody looks
    hasher = Hasher(ticks)
    found = []
    for _ in range(10):
        with open(tmp_path / "large", "rb") as file:
            found.append(hasher.hashes(file, "key", len(content), seconds=2.0))
        if found[-1]:
            break
    assert found[0] is None and found[-1] == hashes_of(content)


def test_a_file_that_was_cut_off_has_no_hashes(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"123")
    with open(tmp_path / "short", "rb") as file:
        assert Hasher().hashes(file, "key", 4, seconds=9) is None
