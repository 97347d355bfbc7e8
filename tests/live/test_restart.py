"""A server that ends, politely or not, loses no job, and its replicas do not notice."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from stoker.client.client import Client
from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live

COUNT = """
import os, sys, time
n = 0
while not os.path.exists(sys.argv[1]):
    print("line", n, flush=True)
    n += 1
    time.sleep(0.05)
print("last", n)
"""


def start(server: Server, name: str, flag: Path, workers: int = 0) -> None:
    body = {"name": name, "command": ["python", "-c", COUNT, str(flag)], "workers": workers}
    server.client.run("p", body)
    wait_until(lambda: server.client.details("p", name)["state"] == "RUNNING")


def events(server: Server, name: str) -> list[dict[str, object]]:
    return list(server.client.stream("p", name))


def lines_so_far(server: Server, name: str) -> list[dict[str, object]]:
    return [e for e in server.client.stream("p", name, follow=False) if e["kind"] == "log"]


@pytest.mark.parametrize("kill", [False, True])
def test_jobs_run_on_and_every_line_arrives(server: Server, tmp_path: Path, kill: bool) -> None:
    name, flag = f"survivor_{kill}", tmp_path / "end"
    start(server, name, flag, workers=1)
    before = server.client.details("p", name)["attempts"]
    server.restart(kill=kill)
    after = server.client.details("p", name)
    assert (after["state"], len(after["attempts"])) == ("RUNNING", len(before)) == ("RUNNING", 1)
    count = len(lines_so_far(server, name))
    wait_until(lambda: len(lines_so_far(server, name)) > count)  # shipped to a server that listens on another port
    flag.touch()
    found = events(server, name)
    assert found[-1]["state"] == "SUCCEEDED"
    for replica in ("chief-0", "worker-0"):
        lines = [str(e["text"]) for e in found if e["kind"] == "log" and e["replica"] == replica]
        if replica == "chief-0":
            assert lines == [f"line {n}" for n in range(len(lines) - 1)] + [f"last {len(lines) - 1}"]
        assert lines == sorted(lines, key=lambda text: int(text.split()[1]))
        assert len(set(lines)) == len(lines)


def test_what_ended_while_the_server_was_away_is_seen_with_its_last_line(server: Server, tmp_path: Path) -> None:
    flag = tmp_path / "end"
    start(server, "ends_alone", flag)
    os.kill(server.found.pid, signal.SIGSTOP)  # away, in the way of a machine that hangs
    flag.touch()
    status = server.home / "runs/p/ends_alone.1/chief-0/status.json"
    wait_until(lambda: json.loads(status.read_text())["seen"] == "SUCCEEDED")
    os.kill(server.found.pid, signal.SIGCONT)
    server.restart(kill=True)
    found = events(server, "ends_alone")
    assert found[-1]["state"] == "SUCCEEDED"
    assert str([e["text"] for e in found if e["kind"] == "log"][-1]).startswith("last")


def test_a_stream_goes_on_over_a_restart(server: Server, tmp_path: Path) -> None:
    """The client asks again from where it was: no line is missing, none comes twice."""
    flag = tmp_path / "end"
    start(server, "streamed", flag)
    seen: list[str] = []
    port = server.found.url.rsplit(":", 1)[1]
    reader = Client(server.found.url, server.found.token)
    for event in reader.stream("p", "streamed"):
        if event["kind"] == "log":
            seen.append(event["text"])
            if len(seen) == 5:
                flags, server.flags = server.flags, (f"--port={port}",)
                server.restart()
                server.flags = flags
            if len(seen) == 10:
                flag.touch()
    reader.close()
    assert seen == [f"line {n}" for n in range(len(seen) - 1)] + [f"last {len(seen) - 1}"]


def test_a_cancel_given_before_a_crash_is_kept(server: Server, tmp_path: Path) -> None:
    start(server, "cancelled", tmp_path / "never")
    server.client.cancel("p", "cancelled")
    server.restart(kill=True)
    end = wait_until(lambda: (d := server.client.details("p", "cancelled"))["state"] == "CANCELLED" and d)
    assert end["ended_at"] <= time.time()


def test_a_supervisor_that_is_killed_while_the_server_is_away(server: Server, tmp_path: Path) -> None:
    """Its program dies with it, every line that it had written arrives, and the job goes on in a new attempt."""
    start(server, "orphaned", tmp_path / "end")
    run = server.home / "runs/p/orphaned.1/chief-0"
    pid, program = int((run / "pid").read_text()), json.loads((run / "status.json").read_text())["program_pid"]
    os.kill(server.found.pid, signal.SIGKILL)
    wait_until(lambda: (run / "log.jsonl").read_text().count("\n") > 20)  # nobody takes them now
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(program) or psutil.Process(program).status() == psutil.STATUS_ZOMBIE)
    written = [json.loads(line)["m"] for line in (run / "log.jsonl").read_text().splitlines()]
    server.restart(kill=True)
    wait_until(lambda: [a["number"] for a in server.client.details("p", "orphaned")["attempts"]] == [1, 2])
    lines = [e["text"] for e in lines_so_far(server, "orphaned") if e["attempt"] == "p/orphaned.1"]
    assert lines == written == [f"line {n}" for n in range(len(written))]
    (tmp_path / "end").touch()
    assert events(server, "orphaned")[-1]["state"] == "SUCCEEDED"
