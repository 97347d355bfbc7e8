"""Nothing that others do to a folder leads a name out of it, also while it is looked up."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from stoker.core.errors import BadSpec
from stoker.runtime.umask import opened
from stoker.store.names import is_part
from stoker.store.root import Root
from tests.attack.swapper import swapping

TRIES = 3000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bucket"
    (made / "a/b").mkdir(parents=True)
    (made / "a/b/file").write_bytes(b"content")
    (tmp_path / "secret").write_bytes(b"secret")
    return made


@pytest.fixture
def root(folder: Path) -> Root:
    return Root(folder)


def read(root: Root, name: str) -> bytes:
    with root.open(name) as file:
        return file.read()


def test_files_are_found_by_name(root: Root, folder: Path) -> None:
    assert read(root, "a/b/file") == read(root, "a//b/file") == b"content"
    assert root.stat("a/b/file").st_size == 7 and root.is_folder("a/b") and root.is_folder("")
    assert not root.is_file("a/b") and not root.is_file("none") and not root.is_folder("a/b/file")
    assert [entry.name for entry in root.entries("a")] == ["b"] and root.entries("a")[0].is_folder
    assert root.shown("a/b") == str(folder / "a/b")
    stats = root.stats(["a/b/file", "a/b/none", "a/b/", "x/y"])
    assert [name for name, found in stats.items() if found] == ["a/b/file", "a/b/"]


def test_a_file_is_written_whole_or_not_at_all(root: Root, folder: Path) -> None:
    with root.replacing("new/one") as file:
        file.write(b"one")
        assert [is_part(name) for name in os.listdir(folder / "new")] == [True]
    assert os.listdir(folder / "new") == ["one"] and read(root, "new/one") == b"one"
    with pytest.raises(RuntimeError), root.replacing("new/one") as file:
        file.write(b"half")
        raise RuntimeError
    assert os.listdir(folder / "new") == ["one"] and read(root, "new/one") == b"one"


def test_names_are_given_and_taken(root: Root, folder: Path) -> None:
    root.rename("a/b/file", "c/d")
    root.sync_folder_of("c/d")
    assert read(root, "c/d") == b"content" and not root.is_file("a/b/file")
    root.unlink("c/d")
    root.remove_folder("c")
    root.make_folder("x/y/z")
    root.remove_empty_folders("x")
    assert os.listdir(folder) == ["a"]
    root.remove_empty_folders("")
    assert not folder.exists()
    with root.open_to_write("p") as file:
        file.write(b"p")
    assert read(root, "p") == b"p", "the folder is made when it is written to"


def test_links_inside_are_followed(root: Root, folder: Path) -> None:
    (folder / "last").symlink_to("a/b")
    (folder / "a/up").symlink_to("../a/b/file")
    (folder / "whole").symlink_to(folder / "a/b/file")
    (folder / "top").symlink_to(folder)
    (folder / "chain").symlink_to("last")
    for name in ("last/file", "a/up", "whole", "top/last/file", "chain/file", "top/top/a/up"):
        assert read(root, name) == b"content", name
    assert root.is_file("whole") and root.stats(["whole", "last"])["whole"]
    with root.replacing("last/new") as file:
        file.write(b"n")
    assert (folder / "a/b/new").exists()
    root.unlink("whole")
    assert (folder / "a/b/file").exists(), "a link is removed, and not what it leads to"


OUT = [
    "..",
    "../secret",
    "a/../../secret",
    "{tmp}/secret",
    "/etc/passwd",
    "/proc/self/root/etc/passwd",
    "a/b/../../../secret",
]


@pytest.mark.parametrize("target", OUT)
def test_no_link_leads_out(root: Root, folder: Path, tmp_path: Path, target: str) -> None:
    (folder / "link").symlink_to(target.format(tmp=tmp_path))
    for use in (root.open, root.stat, root.open_to_write, root.entries, root.check):
        with pytest.raises(BadSpec, match="through a link"):
            use("link")  # type: ignore[operator]
    with pytest.raises(BadSpec), root.replacing("link/x"):
        pass
    with pytest.raises(BadSpec):
        root.rename("a/b/file", "link/x")
    assert root.stats(["link", "a"])["link"] is None
    assert (tmp_path / "secret").read_bytes() == b"secret" and read(root, "a/b/file") == b"content"


def test_links_in_circles_end(root: Root, folder: Path) -> None:
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        root.open("one")
    assert not root.is_file("one/x")


def test_what_is_no_regular_file_is_none_and_nobody_waits_for_it(root: Root, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "null").symlink_to("/dev/null")
    began = time.monotonic()
    for name in ("pipe", "pipe/x"):
        with pytest.raises(OSError):
            root.open(name)
        assert not root.is_file(name)
    with pytest.raises(OSError):
        root.open_to_write("pipe")
    with pytest.raises(IsADirectoryError):
        root.open("a")
    with pytest.raises(BadSpec):
        root.open("null")
    assert time.monotonic() - began < 5


def test_a_root_that_somebody_has_made_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    root = Root(folder)
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError):
        root.open("secret")


@pytest.mark.skipif(os.getuid() != 0, reason="gives files away")
def test_only_what_a_user_could_read_is_opened_for_them(folder: Path) -> None:
    root = Root(folder, user=20_000)
    os.chmod(folder, 0o755)
    os.chmod(folder / "a", 0o711)
    os.chmod(folder / "a/b", 0o755)
    os.chmod(folder / "a/b/file", 0o640)
    with pytest.raises(PermissionError):
        root.open("a/b/file")
    os.chown(folder / "a/b/file", 20_000, 20_000)
    assert read(root, "a/b/file") == b"content"
    with pytest.raises(PermissionError):
        root.entries("a")
    os.chmod(folder / "a", 0o700)
    with pytest.raises(PermissionError):
        root.open("a/b/file")


def test_a_folder_that_is_swapped_for_a_link_opens_nothing_outside(folder: Path, tmp_path: Path) -> None:
    """The whole of it, with a server's files outside: read, written, listed, renamed, removed."""
    outside = tmp_path / "home"
    (outside / "b").mkdir(parents=True)
    (outside / "b/file").write_bytes(b"secret")
    before = sorted(path.relative_to(outside) for path in outside.rglob("*"))
    (folder / "x").symlink_to(outside)
    root, seen = Root(folder), set()
    with swapping(folder / "a", folder / "x"):
        for number in range(TRIES):
            for use in (
                lambda: seen.add(read(root, "a/b/file")),
                lambda: seen.update(entry.name.encode() for entry in root.entries("a/b") if not is_part(entry.name)),
                lambda: root.remove_folder("a/b/none"),
                lambda n=number: _write(root, f"a/b/new{n % 7}"),
                lambda n=number: root.rename(f"a/b/new{n % 7}", "a/b/moved"),
                lambda: root.unlink("a/b/moved"),
            ):
                try:
                    use()
                except (OSError, BadSpec):
                    continue
    assert b"secret" not in seen and b"content" in seen
    assert sorted(path.relative_to(outside) for path in outside.rglob("*")) == before
    left = [name for _, _, names in os.walk(folder) for name in names if is_part(name)]
    assert not left, "and no part is left behind"


def _write(root: Root, name: str) -> None:
    with root.replacing(name) as file:
        file.write(b"new")


def test_modes_follow_the_umask(root: Root, folder: Path) -> None:
    with root.replacing("n") as file:
        file.write(b"n")
    assert stat.S_IMODE((folder / "n").stat().st_mode) == opened(0o666)
