"""A disk that fills up, for real: the home lies on a small file system of its own. Only root can make one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from stoker.core.errors import StokerError, Unavailable
from stoker.store.room import free_bytes
from stoker.store.sql import SqlStore
from tests.conftest import wait_until
from tests.live.test_restart import COUNT

pytestmark = pytest.mark.live


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder with 32 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave_bytes: int) -> Path:
    """Fill a disk up to the last bytes."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        while (left := free_bytes(folder) - leave_bytes) > 0:
            try:
                file.write(bytes(min(left, 1 << 20)))
            except OSError:
                break
    return filler


def test_new_jobs_are_refused_what_runs_goes_on_and_nothing_is_lost(small: Path, tmp_path: Path) -> None:
    home, enough, last = small / "home", tmp_path / "enough", tmp_path / "last"
    home.mkdir()
    (home / "config.yaml").write_text(json.dumps({"reserve_mb": 8, "job_folders": str(tmp_path)}))
    config = read_config({"STOKER_HOME": str(home)})
    found = embedded.start(config, ("--port=0",))
    client = Client(found.url, found.token)

    def run(name: str, flag: Path) -> None:
        client.run("p", {"name": name, "command": ["python", "-c", COUNT, str(flag)]})

    def state(name: str) -> str:
        return str(client.details("p", name)["state"])

    def lines(name: str) -> list[str]:
        return [e["text"] for e in client.stream("p", name, follow=False) if e["kind"] == "log"]

    try:
        for name, flag in (("ends_meanwhile", enough), ("lasts", last)):
            run(name, flag)
            wait_until(lambda name=name: state(name) == "RUNNING")  # type: ignore[misc]

        # 1. Below the reserve: nothing new, and what runs is written down as ever, to its end.
        filler = fill(small, 6_000_000)
        with pytest.raises(Unavailable, match="nearly full") as refused:
            run("refused", last)
        assert "free some space" in refused.value.fix
        enough.touch()
        wait_until(lambda: state("ends_meanwhile") == "SUCCEEDED")

        # 2. Not a byte left: what cannot be written is not acknowledged, and reading goes on.
        fill(small, 0)
        with pytest.raises(StokerError):
            run("refused", last)
        assert state("ends_meanwhile") == "SUCCEEDED" and lines("ends_meanwhile")[-1].startswith("last")

        # 3. Space again: everything goes on, and no line is missing.
        filler.unlink()
        wait_until(lambda: run("taken", last) or True)
        count = len(lines("lasts"))
        wait_until(lambda: len(lines("lasts")) > count)
        last.touch()
        for name in ("lasts", "taken"):
            wait_until(lambda name=name: state(name) == "SUCCEEDED")  # type: ignore[misc]
            texts = lines(name)
            assert texts == [f"line {n}" for n in range(len(texts) - 1)] + [f"last {len(texts) - 1}"]
        assert len(client.details("p", "lasts")["attempts"]) == 1
    finally:
        (small / "filler").unlink(missing_ok=True)
        enough.touch()
        last.touch()  # nothing runs on, whatever has failed
        client.close()
        os.kill(found.pid, signal.SIGKILL)
        wait_until(lambda: not embedded.is_locked(home))
    assert "Traceback" not in (home / "server.log").read_text()
    store = SqlStore(home / "stoker.db")
    assert {listed.job.id for listed in store.jobs("p")} == {"p/ends_meanwhile", "p/lasts", "p/taken"}
    assert [line.n for line in store.story()] == list(range(1, store.position() + 1))
    store.close()
