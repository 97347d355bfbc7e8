"""Where files are, and that no name leads out of its bucket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.core.errors import BadSpec, NotFound, TooLarge, Unavailable
from stoker.store.files import Files, has_cloud_credentials
from stoker.store.root import Root
from tests.store.cloud import FakeCloud


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "buckets", buckets={"mapped": str(tmp_path / "data")}, keep_buckets_here=True)


def put(files: Files, uri: str, content: bytes = b"x") -> None:
    with files.write(uri) as file:
        file.write(content)


def test_a_bucket_is_a_folder(files: Files, tmp_path: Path) -> None:
    assert files.program_path("gs://some-bucket/a/b") == str(tmp_path / "buckets/gs/some-bucket/a/b")
    assert files.program_path("s3://some-bucket/a") == str(tmp_path / "buckets/s3/some-bucket/a")
    assert files.program_path("gs://mapped/a") == str(tmp_path / "data/a")
    assert files.program_path("/plain/path") == "/plain/path"


def test_in_the_cloud_the_program_gets_the_uri(tmp_path: Path) -> None:
    files = Files(tmp_path, buckets={}, keep_buckets_here=False)
    assert files.program_path("gs://some-bucket/a") == "gs://some-bucket/a"
    with pytest.raises(Unavailable, match="s3fs"):
        files.exists("s3://some-bucket/a")


def test_a_program_may_be_led_where_the_server_does_not_go(files: Files) -> None:
    assert files.program_path("az://container/run 1".replace(" ", "_")) == "az://container/run_1"
    with pytest.raises(BadSpec, match="neither gs://BUCKET"):
        files.place("az://container/run")
    for uri in ("file:///etc", "http://host/x", "memory://x", "az://", "az:///x", "az://a b", "simplecache::az://x"):
        with pytest.raises(BadSpec):
            files.program_path(uri)


def test_write_then_read(files: Files) -> None:
    assert not files.exists("gs://some-bucket/a/b")
    put(files, "gs://some-bucket/a/b", b"hello")
    with files.read("gs://some-bucket/a/b") as file:
        assert file.read() == b"hello"
    assert files.exists("gs://some-bucket/a/b")
    assert not files.exists("gs://some-bucket/a"), "a folder is not a file"


def test_a_write_that_fails_leaves_nothing(files: Files, tmp_path: Path) -> None:
    put(files, "gs://some-bucket/a", b"old")
    with pytest.raises(RuntimeError), files.write("gs://some-bucket/a") as file:
        file.write(b"half")
        raise RuntimeError
    with files.read("gs://some-bucket/a") as file:
        assert file.read() == b"old"
    assert os.listdir(tmp_path / "buckets/gs/some-bucket") == ["a"]


def test_a_write_to_a_cloud_that_fails_leaves_nothing(tmp_path: Path) -> None:
    cloud = FakeCloud()
    files = Files(tmp_path, buckets={}, keep_buckets_here=False, cloud=lambda _: cloud)
    with pytest.raises(TooLarge), files.write("gs://some-bucket/a") as file:
        file.write(b"half")
        raise TooLarge
    assert not files.exists("gs://some-bucket/a")
    put(files, "gs://some-bucket/a", b"whole")
    with files.read("gs://some-bucket/a") as file:
        assert file.read() == b"whole"
    with pytest.raises(NotFound), files.read("gs://some-bucket/none"):
        pass


def test_buckets_that_are_here(files: Files, tmp_path: Path) -> None:
    put(files, "gs://some-bucket/a")
    put(files, "s3://another/a")
    (tmp_path / "buckets/gs/No Bucket").mkdir()
    assert files.buckets() == {"mapped": tmp_path / "data", "some-bucket": tmp_path / "buckets/gs/some-bucket"}
    assert Files(tmp_path / "buckets", buckets={}, keep_buckets_here=False).buckets() == {}


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    folder = tmp_path / "buckets/gs/some-bucket"
    folder.mkdir(parents=True)
    files = Files(tmp_path / "buckets", buckets={}, keep_buckets_here=True)
    with pytest.raises(Unavailable, match="No space left"), files.write("gs://some-bucket/a") as file:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")
        file.write(b"never")
    assert os.listdir(folder) == []


def test_a_stamp_changes_with_the_content(files: Files) -> None:
    put(files, "gs://some-bucket/a", b"one")
    first = files.stamp("gs://some-bucket/a")
    put(files, "gs://some-bucket/a", b"other")
    assert files.stamp("gs://some-bucket/a") != first
    with pytest.raises(NotFound):
        files.stamp("gs://some-bucket/none")


BYPASSES = [
    "../secret",
    "a/../../secret",
    "/etc/passwd",
    "..\\secret",
    "a\\..\\b",
    "%2e%2e/secret",
    "%252e%252e/secret",
    "..%2fsecret",
    "a/%2e%2e/%2e%2e/secret",
    "C:/secret",
    "a\x00b",
    ".",
    "a/./b",
    "..",
]


@pytest.mark.parametrize("name", BYPASSES)
def test_no_name_leads_out(files: Files, name: str, tmp_path: Path) -> None:
    with pytest.raises(BadSpec):
        Root(tmp_path).stat(name)
    for use in (files.exists, files.stamp, files.program_path):
        with pytest.raises(BadSpec):
            use(f"gs://some-bucket/{name}")
    with pytest.raises(BadSpec):
        put(files, f"gs://some-bucket/{name}")


def test_no_link_leads_out(files: Files, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    bucket = tmp_path / "buckets/gs/some-bucket"
    bucket.mkdir(parents=True)
    (bucket / "link").symlink_to(tmp_path / "secret")
    (bucket / "folder").symlink_to(tmp_path)
    for name in ("link", "folder/secret"):
        with pytest.raises(BadSpec, match="through a link"), files.read(f"gs://some-bucket/{name}"):
            pass


def test_odd_but_harmless_names_are_taken_as_they_are(files: Files, tmp_path: Path) -> None:
    for name in ("a%20b", "100%", "a b", "ü", "a..b", "...", "-rf", "a;b"):
        put(files, f"gs://some-bucket/{name}")
        assert (tmp_path / "buckets/gs/some-bucket" / name).exists()


@pytest.mark.parametrize("uri", ["relative/path", "http://x/y", "gs://", "gs://A_B/x", "gs://ab/x", "", "/a/../b"])
def test_what_is_no_place_is_refused(files: Files, uri: str) -> None:
    with pytest.raises(BadSpec):
        files.place(uri)


def test_cloud_credentials(tmp_path: Path) -> None:
    assert not has_cloud_credentials({"HOME": str(tmp_path)})
    assert has_cloud_credentials({"HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": "x"})
    (tmp_path / ".config/gcloud").mkdir(parents=True)
    (tmp_path / ".config/gcloud/application_default_credentials.json").write_text("{}")
    assert has_cloud_credentials({"HOME": str(tmp_path)})


def test_a_name_that_is_a_folder_or_below_a_file_is_refused(files: Files) -> None:
    put(files, "gs://some-bucket/a/b")
    for uri in ("gs://some-bucket/a", "gs://some-bucket/a/b/c"):
        with pytest.raises(BadSpec, match="choose another name"):
            put(files, uri)


def test_plain_paths_are_for_admins_or_below_a_job_folder(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "a").mkdir(parents=True)
    (shared / "a/file").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"secret")
    (shared / "link").symlink_to(tmp_path)
    (tmp_path / "other-name").symlink_to(shared)
    files = Files(tmp_path / "buckets", buckets={}, keep_buckets_here=True, job_folders=[str(shared)])
    users = files.limited(None)
    assert files.exists(str(tmp_path / "secret")) and files.exists(f"{shared}/a/file")
    assert users.exists(f"{shared}/a/file") and not users.exists(f"{shared}/a")
    for path in (tmp_path / "secret", f"{shared}-2/x", tmp_path / "other-name/a/file", "/etc/passwd"):
        with pytest.raises(NotFound, match="opens no path"):
            users.place(str(path))
    for who in (files, users):
        with pytest.raises(BadSpec, match="through a link"), who.read(f"{shared}/link/secret"):
            pass


@pytest.mark.skipif(os.getuid() != 0, reason="gives files away")
def test_a_path_below_a_job_folder_is_opened_as_its_owner_would(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    for user, mode in ((20_001, 0o600), (20_002, 0o644)):
        (tmp_path / str(user)).write_bytes(b"x")
        os.chmod(tmp_path / str(user), mode)
        os.chown(tmp_path / str(user), user, user)
    users = {"ada": 20_001, "bob": 20_002}
    files = Files(
        tmp_path / "b", buckets={}, keep_buckets_here=True, job_folders=[str(tmp_path)], user_of=users.__getitem__
    )
    assert files.of("ada").exists(f"{tmp_path}/20001") and files.of("ada").exists(f"{tmp_path}/20002")
    assert not files.of("bob").exists(f"{tmp_path}/20001")
    with pytest.raises(Unavailable, match="Permission denied"), files.of("bob").read(f"{tmp_path}/20001"):
        pass


def test_what_is_no_regular_file_is_not_there(files: Files, tmp_path: Path) -> None:
    put(files, "gs://some-bucket/a")
    os.mkfifo(tmp_path / "buckets/gs/some-bucket/pipe")
    assert not files.exists("gs://some-bucket/pipe")
    with pytest.raises(NotFound), files.read("gs://some-bucket/pipe"):
        pass
