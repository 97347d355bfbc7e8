"""Programs that flood their output, for real: what is left on the disk, and how late they end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stoker.core.errors import StokerError
from tests.conftest import Server, wait_until
from tests.live.test_restart import events, lines_so_far, start

pytestmark = pytest.mark.live

MB = 1_000_000
FLOOD_SECONDS = 2


def replica_logs(server: Server) -> list[Path]:
    return list((server.home / "runs").rglob("log.jsonl"))


def test_of_a_flood_little_is_left_once_and_its_job_ends_with_it(server: Server) -> None:
    began = time.monotonic()
    server.client.run("p", {"name": "flood", "command": ["timeout", str(FLOOD_SECONDS), "yes"]})
    found = events(server, "flood")
    assert found[-1]["state"] == "FAILED" and time.monotonic() - began < FLOOD_SECONDS + 10
    texts = [str(e["text"]) for e in found if e["kind"] == "log"]
    assert texts[0] == texts[-1] == "y"
    assert any("left out here (log_mb_per_second: 4 MB a second)" in text for text in texts)
    assert (server.home / "logs/p/flood.jsonl").stat().st_size < 40 * MB
    wait_until(lambda: not replica_logs(server))


def test_a_log_that_is_deleted_while_its_job_runs_is_there_again_at_the_end(server: Server, tmp_path: Path) -> None:
    flag = tmp_path / "end"
    start(server, "counts", flag)
    wait_until(lambda: len(lines_so_far(server, "counts")) > 3)
    log = server.home / "logs/p/counts.jsonl"
    log.unlink()
    wait_until(lambda: log.exists())
    flag.touch()
    found = events(server, "counts")
    assert found[-1]["state"] == "SUCCEEDED"
    lines = [str(e["text"]) for e in lines_so_far(server, "counts")]
    assert lines == [f"line {n}" for n in range(len(lines) - 1)] + [f"last {len(lines) - 1}"]
    wait_until(lambda: not replica_logs(server))


def test_a_project_that_has_filled_its_share_of_the_disk_is_refused(server: Server) -> None:
    (server.home / "config.yaml").write_text("project_disk_gb: 0.005\n")
    server.restart()
    left = server.home / "runs/full/old.1/chief-0/work/model"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x" * 6 * MB)
    body = {"name": "next", "command": ["true"]}
    with pytest.raises(StokerError, match=r"the project full have left 0.01 GB here") as refused:
        server.client.run("full", body)
    assert "project_disk_gb" in refused.value.fix
    server.client.run("other", body)
