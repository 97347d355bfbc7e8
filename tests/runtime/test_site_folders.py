"""The folders of replicas on one machine, with a server over HTTP: each ends by itself, and what cannot be kept is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.runtime import site_folders
from stoker.runtime.errors import CannotStart
from stoker.runtime.site_folders import SiteFolders
from tests.conftest import wait_until
from tests.frameworks.checkpointing.test_site_file_system import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """One that answers."""
    with Site() as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site
        site.shutdown()


@pytest.fixture
def replica(site: Site, tmp_path: Path) -> Callable[..., SiteFolders]:
    """Makes the folders of a replica; the same folder for all."""
    said: list[str] = []

    def make(name: str = "worker-0", *, is_over: Callable[[], bool] = lambda: False) -> SiteFolders:
        (tmp_path / name / "beat").mkdir(parents=True)
        (tmp_path / "server-url").write_text(f"http://127.0.0.1:{site.server_address[1]}")
        request: dict[str, Any] = {
            "server_file": str(tmp_path / "server-url"),
            "token": "t",
            "attempt": "p/j.1",
            "role": "chief",
            "index": 0,
            "is_alone": False,
            "mirrors": [{"number": 0, "path": str(tmp_path / "folders" / "0")}],
        }
        return SiteFolders(request, str(tmp_path / name / "beat"), said.append, None, lambda now: None, is_over)

    make.said = said  # type: ignore[attr-defined]
    return make


def test_each_replica_of_a_machine_ends_by_itself(
    site: Site, replica: Callable[..., SiteFolders], tmp_path: Path
) -> None:
    site.content["given"] = b"1"
    first, second = replica("worker-0"), replica("worker-1")
    for one in (first, second):
        variables = one.bring(lambda: False)
        assert variables["STOKER_SITE_FOLDERS"] == f"0={tmp_path / 'folders' / '0'}"
    (tmp_path / "folders" / "0" / "of-the-second").write_text("2")
    assert second.finish() == "" and site.content["of-the-second"] == b"2"  # the first goes on
    (tmp_path / "folders" / "0" / "of-the-first").write_text("1")
    assert first.finish() == "" and site.content["of-the-first"] == b"1"
    assert replica.said == ["brings 1 file(s) of the job's folders here from the site: 1 B"]  # type: ignore[attr-defined]


def test_what_is_written_arrives_while_it_runs_and_what_others_write_comes(
    site: Site, replica: Callable[..., SiteFolders], tmp_path: Path
) -> None:
    one = replica()
    one.bring(lambda: False)
    (tmp_path / "folders" / "0" / "mine").write_text("1")
    wait_until(lambda: "mine" in site.content)
    site.content["theirs"] = b"2"
    wait_until((tmp_path / "folders" / "0" / "theirs").exists)
    assert one.finish() == ""


def test_what_the_site_never_takes_ends_it_with_the_reason(
    site: Site, replica: Callable[..., SiteFolders], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_folders, "_MOST_STUCK_SECONDS", 0.5)
    one = replica()
    one.bring(lambda: False)
    site.refuses = (503, "UNAVAILABLE", "model cannot be written: No space left on device")
    (tmp_path / "folders" / "0" / "model").write_text("1")
    assert one.finish() == "model cannot be written: No space left on device"
    said = replica.said  # type: ignore[attr-defined]
    assert any("cannot be kept at the site, and wait here: model cannot be written" in line for line in said)


def test_who_is_cut_off_sends_no_more(site: Site, replica: Callable[..., SiteFolders], tmp_path: Path) -> None:
    is_over = False
    one = replica(is_over=lambda: is_over)
    one.bring(lambda: False)
    is_over = True
    (tmp_path / "folders" / "0" / "model").write_text("1")
    assert one.finish() == "the lease is over" and "model" not in site.content


def test_a_folder_that_is_refused_is_told(site: Site, replica: Callable[..., SiteFolders]) -> None:
    site.refuses_lists = "it has more than 500,000 files"
    with pytest.raises(CannotStart, match="cannot be brought here: it has more than 500,000 files"):
        replica().bring(lambda: False)


def test_who_is_told_to_stop_brings_no_more(site: Site, replica: Callable[..., SiteFolders], tmp_path: Path) -> None:
    site.content["large"] = b"x" * (4 << 20)
    one = replica()
    asked = iter([False, False, False, False])
    one.bring(lambda: next(asked, True))
    assert not (tmp_path / "folders" / "0" / "large").exists()
    assert one.finish() == ""
