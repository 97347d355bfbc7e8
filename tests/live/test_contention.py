"""Real processes that contend for virtual GPUs: what `stoker why` says of them comes true, in that order."""

from __future__ import annotations

import re

import pytest

from stoker.client.client import Client
from tests.conftest import Server, wait_until

pytestmark = [pytest.mark.live, pytest.mark.campaign]
FLAGS = ("--fake=1x4xT4",)
SECONDS = 4.0


def submit(client: Client, name: str) -> None:
    body = {"name": name, "command": ["sleep", f"{SECONDS:g}"], "gpus": 4, "gpu_type": "T4"}
    client.run("local", body)


def state(client: Client, name: str) -> str:
    return str(client.details("local", name)["state"])


def test_who_holds_it_is_told_and_the_order_comes_true(server: Server) -> None:
    client = server.client
    for n in range(3):  # what the site learns from
        submit(client, f"past_{n}")
    wait_until(lambda: all(state(client, f"past_{n}") == "SUCCEEDED" for n in range(3)), 60.0)
    names = ["now_0", "now_1", "now_2", "now_3"]
    for name in names:
        submit(client, name)
    wait_until(lambda: state(client, "now_0") == "RUNNING")
    told = {name: client.explain("local", name) for name in names[1:]}
    assert [told[name]["holders"][0]["job"] for name in told] == ["local/now_0"] * 3
    assert [told[name]["starts"]["waits_for"] for name in told] == ["local/now_0", "local/now_1", "local/now_2"]
    middles = [told[name]["starts"]["at"]["middle"] for name in told]
    assert middles == sorted(middles)
    shown = server.cli("why", "now_3").stdout  # on a busy machine it may end in a moment by now
    assert re.search(r"held by  now_[012] \(4 GPUs, ends (?:about |in a moment|now)", shown), shown
    wait_until(lambda: state(client, "now_3") == "SUCCEEDED", 60.0)
    placed = [client.details("local", name)["attempts"][0]["placed_at"] for name in names[1:]]
    assert placed == sorted(placed)
    for number, (moment, middle) in enumerate(zip(placed, middles, strict=True), start=1):
        assert abs(moment - middle) < number * SECONDS / 2  # each start and end takes its moment on a busy machine
    assert client.explain("local", "now_3")["starts"] is None
