"""Ports that no two replicas of a machine choose, though nobody listens on them yet."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from stoker.runtime.ports import FIRST, LAST, reserve


def test_reserved_ports_can_be_bound_and_differ() -> None:
    ports = reserve(3, "127.0.0.1")
    assert len(set(ports)) == 3 and all(FIRST <= port < LAST for port in ports)
    for port in ports:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", port))


def test_processes_at_the_same_time_never_share_one() -> None:
    script = """
import json, sys
from stoker.runtime.ports import reserve
print(json.dumps(reserve(50, "127.0.0.1")), flush=True)
sys.stdin.read()
"""
    src = Path(__file__).parents[2] / "src"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(src)},
        )
        for _ in range(4)
    ]
    found: list[int] = []
    for child in children:
        assert child.stdout is not None
        found += json.loads(child.stdout.readline())
    for child in children:
        child.communicate("")
    assert len(found) == len(set(found)) == 200


def test_a_port_that_somebody_listens_on_is_passed_over() -> None:
    (port,) = reserve(1, "127.0.0.1")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", port))
        listening.listen()
        assert port not in reserve(200, "127.0.0.1")
