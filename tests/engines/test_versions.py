"""A server of one version and supervisors of another: they understand each other, and no training notices an upgrade."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from stoker.engines.base import Request
from stoker.engines.local.engine import LocalEngine
from stoker.runtime.folder import Folder
from stoker.runtime.zipapp import build
from tests.builders import a_node
from tests.conftest import wait_until
from tests.contract.engine_contract import ATTEMPT, a_launch, look, until
from tests.contract.test_engines import a_local_engine

OLD_RUNTIME = Path(__file__).parent / "data" / "runtime-0.1.0-first.pyz"
"""Supervisors as they were first: they know no isolation, no control groups and no notes."""

FOLDER = Path("runs") / ATTEMPT / "chief-0"
WAIT = "import os, sys, time\nprint('begun', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint('done')"


def an_engine(home: Path, runtime: Path) -> LocalEngine:
    """An engine with a runtime of its own."""
    nodes = [a_node("local", soft=True)]
    return LocalEngine(home, nodes=nodes, runtime=runtime, server_url="http://127.0.0.1:9", token=lambda _: "t", uv="")


def changed(request: Request, words: Mapping[str, Any]) -> Request:
    """The request with other words."""
    return replace(request, replicas={name: {**told, **words} for name, told in request.replicas.items()})


def test_a_new_server_takes_over_the_supervisors_of_an_old_one(tmp_path: Path) -> None:
    flag = tmp_path / "end"
    old = an_engine(tmp_path, OLD_RUNTIME)
    old.start(old.render(a_launch(sys.executable, "-c", WAIT, str(flag))))
    wait_until(lambda: [line["m"] for line in old.logs(ATTEMPT, "chief-0", 0)] == ["begun"])
    new = a_local_engine(tmp_path)
    new.adopt([ATTEMPT])
    assert look(new).state is ReplicaState.UP
    new.start(new.render(a_launch(sys.executable, "-c", WAIT, str(flag))))
    flag.touch()
    assert until(new, *FINAL_REPLICA_STATES).state is ReplicaState.SUCCEEDED
    assert [line["m"] for line in new.logs(ATTEMPT, "chief-0", 0)] == ["begun", "done"]


@pytest.mark.parametrize("force", [False, True])
def test_a_new_server_stops_the_supervisors_of_an_old_one(tmp_path: Path, force: bool) -> None:
    old = an_engine(tmp_path, OLD_RUNTIME)
    old.start(old.render(a_launch(sys.executable, "-c", WAIT, str(tmp_path / "never"))))
    until(old, ReplicaState.UP)
    program = json.loads((tmp_path / FOLDER / "status.json").read_text())["program_pid"]
    new = a_local_engine(tmp_path)
    new.stop(ATTEMPT, force=force)
    seen = until(new, *FINAL_REPLICA_STATES)
    assert seen.state is (ReplicaState.LOST if force else ReplicaState.FAILED)
    wait_until(lambda: not os.path.exists(f"/proc/{program}") or "Z" in Path(f"/proc/{program}/stat").read_text())


@pytest.mark.parametrize("runtime", ["old", "new"])
def test_what_a_newer_side_says_besides_is_passed_over(tmp_path: Path, runtime: str) -> None:
    """Down again after an upgrade: the request, and then the status, say things that nobody here knows."""
    engine = an_engine(tmp_path, OLD_RUNTIME if runtime == "old" else Path(build(str(tmp_path / "cache"))))
    request = engine.render(a_launch(sys.executable, "-c", "print('ran')"))
    engine.start(changed(request, {"of_the_future": {"a": [1]}}))
    until(engine, *FINAL_REPLICA_STATES)
    status = tmp_path / FOLDER / "status.json"
    status.write_text(json.dumps({**json.loads(status.read_text()), "of_the_future": [1]}))
    assert look(engine).state is ReplicaState.SUCCEEDED
    with open(tmp_path / FOLDER / "log.jsonl", "a") as file:
        file.write('{"n": 2, "t": 1.0, "s": "out", "m": "two", "of_the_future": 1}\n')
    assert [line["m"] for line in engine.logs(ATTEMPT, "chief-0", 0)] == ["ran", "two"]


def test_a_request_of_an_older_server_is_understood(tmp_path: Path) -> None:
    """It was written by a server that was upgraded before its supervisor had read it."""
    old = an_engine(tmp_path, OLD_RUNTIME)
    old.start(old.render(a_launch(sys.executable, "-c", "print('ran')")))
    until(old, *FINAL_REPLICA_STATES)
    folder = tmp_path / "runs/p/k.1/chief-0"
    folder.mkdir(parents=True)
    request = json.loads((tmp_path / FOLDER / "request.json").read_text())
    for word in ("isolation", "cgroup"):
        del request[word]
    (folder / "request.json").write_text(json.dumps({**request, "attempt": "p/k.1"}))
    supervise = [sys.executable, "-I", "-S", build(str(tmp_path / "cache")), str(folder)]
    with subprocess.Popen(supervise) as supervisor:
        wait_until(lambda: Folder(str(folder)).read_status().get("seen") == "SUCCEEDED")
        supervisor.kill()
    assert [line["m"] for line in old.logs("p/k.1", "chief-0", 0)] == ["ran"]
