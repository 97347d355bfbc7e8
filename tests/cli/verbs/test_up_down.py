"""`stoker up`, `status`, `down`: the server's life."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.config import read_config
from tests.cli.conftest import Cli
from tests.conftest import Server, wait_until


@pytest.fixture
def alone(cli: Cli) -> Iterator[Cli]:
    """The command line, with a home whose server is gone afterwards."""
    yield cli
    found = embedded.find(read_config({"STOKER_HOME": str(cli.home)}))
    if found is not None:
        os.kill(found.pid, signal.SIGKILL)


def test_up_status_down(alone: Cli) -> None:
    up = alone("up", "--port", "0", "--fake", "2x4xT4", "--hold", "--json")
    told = json.loads(up.out)
    assert up.code == 0 and told["url"].startswith("http://127.0.0.1:") and told["nodes"] == 3
    assert stat.S_IMODE(os.stat(told["token_file"]).st_mode) == 0o600

    again = alone("up", "--port", "0", "--json")
    assert again.code == 0 and "a server runs already" in again.err and "has no effect" in again.err
    assert json.loads(again.out)["pid"] == told["pid"]

    status = json.loads(alone("status", "--json").out)
    assert (status["url"], status["home"], status["hold"]) == (told["url"], str(alone.home), True)
    assert (status["engines"], len(status["nodes"]), status["token_file"]) == (["local"], 3, told["token_file"])
    assert "jobs are accepted, none is started" in alone("status").out
    level = status["isolation"]["level"]
    assert f"level {level} (auto): {status['isolation']['by']}" in alone("status").out
    nodes = json.loads(alone("nodes", "--json").out)["nodes"]
    assert [node["accelerators_free"] for node in nodes] == [0, 4, 4]
    assert "4/4 NVIDIA_TESLA_T4" in alone("nodes").out

    alone("run", "--async", "--name", "held", "--", "true")
    assert "held is queued" in alone("why", "held").out or "held waits" in alone("why", "held").out
    down = alone("down", "--cancel-jobs")
    assert down.code == 0 and "held cancelled" in down.err and "the server has ended" in down.err
    assert alone("status").code == 5
    assert alone("down").code == 0


def test_a_level_that_this_machine_cannot_give_is_refused_with_what_to_do(alone: Cli, tmp_path: Path) -> None:
    refused = alone("up", "--port", "0", STOKER_ISOLATION="1", PATH=str(tmp_path))
    assert refused.code != 0 and "isolation level 1 cannot be had here: it needs" in refused.err
    assert "stoker config set isolation auto" in refused.err


def test_jobs_go_on_without_the_server_and_the_next_one_takes_them_over(alone: Cli) -> None:
    alone("up", "--port", "0")
    alone(
        "run", "--async", "--name", "long", "--", "sh", "-c", "echo begun; while [ ! -e /nothing ]; do sleep 0.1; done"
    )
    wait_until(lambda: "begun" in alone("logs", "long").out)
    down = alone("down")
    assert "long goes on; the next server takes it over" in down.err
    assert "started the embedded server" in alone("jobs", "list", STOKER_PORT="0").err
    assert json.loads(alone("jobs", "describe", "long", "--json").out)["state"] == "RUNNING"
    assert "long cancelled" in alone("down", "--cancel-jobs").err


def test_a_busy_port_is_told(alone: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = alone("up", "--port", str(port))
    assert ran.code == 5
    assert ran.err.splitlines() == [
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use",
        "  → another program may use that port: choose another with --port, or 0 for any",
    ]


def test_without_a_token_only_on_loopback_and_said_loudly(alone: Cli) -> None:
    ran = alone("up", "--port", "0", "--no-auth", "--host", "0.0.0.0")
    assert (
        ran.code == 5 and "refusing to listen on 0.0.0.0 without a token" in ran.err and "error: error:" not in ran.err
    )
    ran = alone("up", "--port", "0", "--no-auth")
    assert ran.code == 0 and ran.err.startswith("! NO TOKEN is asked for")
    assert "! NO TOKEN is asked for" in alone("up").err  # it still is as it was started
    (alone.home / "token").write_text("another" * 10)  # nobody asks for it
    assert alone("jobs", "list").code == 0


def test_a_server_that_asks_for_a_token_goes_on_to_do_so(served: Cli) -> None:
    ran = served("up", "--host", "0.0.0.0", "--no-auth")
    assert ran.code == 0 and "a server runs already" in ran.err and "has no effect on it" in ran.err
    assert "NO TOKEN" not in ran.err
    ran = served("up", "--foreground", "--no-auth")
    assert ran.code == 5 and "another server uses" in ran.err and "NO TOKEN" not in ran.err


def test_nodes_that_are_none_are_told(alone: Cli) -> None:
    ran = alone("up", "--port", "0", "--fake", "bogus")
    assert ran.code == 5 and "'bogus': not COUNTxMACHINE_TYPE" in ran.err and len(ran.err.splitlines()) <= 3


def test_in_the_foreground_a_second_one_is_told_of_the_first(server: Server) -> None:
    ran = server.cli("up", "--foreground", "--port", "0")
    assert ran.returncode == 5 and f"another server uses {server.home} already" in ran.stderr


def test_a_server_that_was_killed_is_replaced(alone: Cli) -> None:
    alone("up", "--port", "0")
    about = json.loads((alone.home / "server.json").read_text())
    os.kill(about["pid"], signal.SIGKILL)
    wait_until(lambda: not embedded.is_locked(alone.home))
    assert alone("status").code == 5
    assert "started the embedded server" in alone("jobs", "list", STOKER_PORT="0").err
    assert json.loads((alone.home / "server.json").read_text())["pid"] != about["pid"]
