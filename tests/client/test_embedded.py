"""The embedded server: found, started once, ended, and everything that can stand in its way."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import Config, read_config
from stoker.core.errors import Unavailable
from tests.conftest import wait_until


def a_config(home: Path, folder: Path | None = None) -> Config:
    """The settings of this home."""
    return read_config({"STOKER_HOME": str(home)}, folder)


@contextmanager
def running(config: Config, *flags: str) -> Iterator[embedded.Found]:
    """A server, which is gone afterwards."""
    found = embedded.start(config, ("--port=0", *flags))
    try:
        yield found
    finally:
        if embedded.is_locked(config.home):
            os.kill(found.pid, signal.SIGKILL)
            wait_until(lambda: not embedded.is_locked(config.home))


def test_started_found_killed_started_again_and_ended(tmp_path: Path) -> None:
    config = a_config(tmp_path / "deep/home")
    assert embedded.find(config) is None
    with running(config) as first:
        assert embedded.find(config) == first
        assert embedded.start(config, ("--port=0",)) == first  # a second one on the same home gives way to it
        status = Client(first.url, first.token).status()
        assert (status["home"], status["version"]) == (str(config.home), first.version)
        paths = (config.home, config.home / "token", config.home / "server.log")
        assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]

        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not embedded.is_locked(config.home))
        assert json.loads((config.home / "server.json").read_text())["pid"] == first.pid  # what it left behind
        assert embedded.find(config) is None
        with running(config) as second:
            assert second.pid != first.pid and second.token == first.token
            assert Client(second.url, second.token).status()["home"] == str(config.home)
            assert embedded.stop(config, second) == []
            assert embedded.find(config) is None and not embedded.is_locked(config.home)
    assert first.token not in (config.home / "server.log").read_text()


def test_many_who_start_it_at_once_find_the_same(tmp_path: Path) -> None:
    config = a_config(tmp_path / "home")
    with ThreadPoolExecutor() as threads:
        started = list(threads.map(lambda _: embedded.start(config, ("--port=0",)), range(3)))
    assert len(set(started)) == 1
    assert embedded.stop(config, started[0]) == []


def test_what_it_left_behind_may_be_anything(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    (tmp_path / "token").write_text("x" * 43)
    for left in ("", "{", "[]", "null", "{}", '{"url": 1, "pid": "x", "version": 1}', '{"url": "x", "pid": 1}'):
        (tmp_path / "server.json").write_text(left)
        assert embedded.find(config) is None


def test_a_process_of_another_kind_with_its_number_is_not_taken_for_it(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    (tmp_path / "token").write_text("x" * 43)
    about = {"url": "http://127.0.0.1:1", "pid": os.getpid(), "version": "0"}
    (tmp_path / "server.json").write_text(json.dumps(about))
    (tmp_path / "server.lock").touch()
    assert embedded.find(config) is None  # nobody holds the lock


def test_a_busy_port_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable) as refused:
            embedded.start(a_config(tmp_path / "home"), (f"--port={port}",))
    assert refused.value.message == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert "--port" in refused.value.fix


def test_a_home_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file/home", Path("/proc/nothing")):
        with pytest.raises(Unavailable) as refused:
            embedded.start(a_config(home))
        assert str(home) in refused.value.message and "STOKER_HOME" in refused.value.fix


def test_the_settings_of_the_folder_reach_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "stoker.yaml").write_text("fake: 2x4xT4\nhold: true\nport: 0\nbuckets: {data: /data, more: /more}\n")
    config = a_config(tmp_path / "home", folder)
    found = embedded.start(config)
    status = Client(found.url, found.token).status()
    assert (status["nodes"], status["hold"]) == (3, True)
    embedded.stop(config, found)
