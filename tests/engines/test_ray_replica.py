"""What a replica's actor makes of a request: which of the site's folders are on its node, and what old attempts have left."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.engines.ray.mark import Mark
from stoker.engines.ray.node_settings import NodeSettings
from stoker.engines.ray.replica import is_here, moved_text, sweep
from tests.contract.engine_contract import a_launch

MOVED = {"/home/ada/stoker/buckets/gs/b/job": "/node/0", "/home/ada/stoker/buckets/gs/b": "/node/1"}


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("/home/ada/stoker/buckets/gs/b/job", "/node/0"),
        ("/home/ada/stoker/buckets/gs/b/job/checkpoints/", "/node/0/checkpoints/"),
        ("--out=/home/ada/stoker/buckets/gs/b/job/x:/home/ada/stoker/buckets/gs/b/y", "--out=/node/0/x:/node/1/y"),
        ("/home/ada/stoker/buckets/gs/b/job-2", "/node/1/job-2"),
        ("/home/ada/stoker/buckets/gs/b-2/job", "/home/ada/stoker/buckets/gs/b-2/job"),
        ("/mnt/home/ada/stoker/buckets/gs/b", "/mnt/home/ada/stoker/buckets/gs/b"),
        ("['/home/ada/stoker/buckets/gs/b']", "['/node/1']"),
        ("nothing", "nothing"),
    ],
)
def test_paths_of_the_server_become_those_of_the_copies(text: str, there: str) -> None:
    assert moved_text(text, MOVED) == there


def test_a_path_may_hold_what_means_something_to_a_pattern() -> None:
    assert moved_text("/a+b(c)/x", {"/a+b(c)": r"/n\1"}) == r"/n\1/x"


def test_a_home_is_here_if_its_mark_is(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    words = dict(Mark(tmp_path / "home").words())
    inside = str(tmp_path / "home" / "buckets" / "gs" / "b")
    assert is_here(inside, words)
    assert not is_here(str(tmp_path / "elsewhere"), words) and not is_here(f"{tmp_path}/home-2/x", words)
    Mark(tmp_path / "home").words()  # of the next server
    assert not is_here(inside, words)
    (tmp_path / "home" / "home.mark").unlink()
    assert not is_here(inside, words)


def test_a_server_has_one_mark(tmp_path: Path) -> None:
    mark = Mark(tmp_path)
    assert mark.words() == mark.words() and (tmp_path / "home.mark").stat().st_mode & 0o077 == 0


def test_folders_that_all_machines_share_are_known_by_their_tops(tmp_path: Path) -> None:
    settings = NodeSettings(shared_folders=("/nfs",))
    launch = replace(a_launch("true"), folders=("/nfs/a/job", "/nfs2/job"))
    assert [folder["shared"] for folder in settings.folders(launch)] == ["/nfs", ""]


def test_what_old_attempts_have_left_goes_and_what_lives_stays(tmp_path: Path) -> None:
    for name in ("old.1", "lives.1", "own.1", "new.1"):
        (tmp_path / "p" / name / "chief-0").mkdir(parents=True)
        (tmp_path / "p" / name / "chief-0" / "lock").touch()
    for name in ("old.1", "lives.1", "own.1"):
        os.utime(tmp_path / "p" / name, (1, 1))
    with open(tmp_path / "p" / "lives.1" / "chief-0" / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep(str(tmp_path), str(tmp_path / "p" / "own.1"))
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["lives.1", "new.1", "own.1"]
    sweep(str(tmp_path / "nothing"), "")
