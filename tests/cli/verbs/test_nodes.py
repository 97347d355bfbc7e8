"""`stoker nodes`: what is shown, and what is wanted of a node."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Cli
from tests.conftest import wait_until

A, B = "virtual-8", "virtual-9"


@pytest.fixture
def nodes(served: Cli) -> Iterator[Cli]:
    """The command line with a server, on which no node is cordoned afterwards."""
    yield served
    for name in (A, B):
        assert served("nodes", "uncordon", name).code == 0


def row_of(nodes: Cli, name: str) -> str:
    return next(line for line in nodes("nodes").out.splitlines() if line.startswith(f"{name} "))


def test_without_a_command_the_nodes_are_listed(nodes: Cli) -> None:
    """What runs on them may change from one look to the next."""

    def first_words(*command: str) -> list[str]:
        return [line.split()[0] for line in nodes(*command).out.splitlines()]

    assert first_words("nodes") == first_words("nodes", "list")
    names = [node["name"] for node in json.loads(nodes("nodes", "--json").out)["nodes"]]
    assert names == [node["name"] for node in json.loads(nodes("nodes", "list", "--json").out)["nodes"]]
    assert {A, B} <= set(names)


def test_cordon_and_uncordon(nodes: Cli) -> None:
    ran = nodes("nodes", "cordon", A, "--why", "new driver")
    assert (ran.code, ran.out) == (0, "") and f"{A} is cordoned" in ran.err
    assert "UP cordoned" in row_of(nodes, A) and "4/4 NVIDIA_TESLA_T4, not usable" in row_of(nodes, A)
    assert f"{A}: cordoned by " in nodes("nodes").err and ": new driver" in nodes("nodes").err
    assert "takes_work  no" in nodes("nodes", "describe", A).out
    assert f"{A} is schedulable again" in nodes("nodes", "uncordon", A).err
    assert "UP cordoned" not in row_of(nodes, A)


def test_drain(nodes: Cli) -> None:
    ran = nodes("nodes", "drain", A)
    assert "drains now: nobody runs there" in ran.err
    assert "UP drained" in row_of(nodes, A)
    found = json.loads(nodes("nodes", "drain", B, "--grace", "30m", "--why", "power", "--json").out)["cordon"]
    assert (found["empty_at"] - found["at"], found["why"]) == (1800.0, "power")
    assert f"{B}: cordoned by " in nodes("nodes").err and "to be empty in 29m" in nodes("nodes").err
    assert ",:" not in nodes("nodes").err


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (("cordon", "virtual-99x"), 3, "there is no node 'virtual-99x'; did you mean virtual-9"),
    (("describe", "nothing-like-it"), 3, "there is no node 'nothing-like-it'"),
    (("drain", A, "--grace", "soon"), 6, "--grace: 'soon' is not a time above 0"),
    (("uncordn", A), 2, "did you mean `stoker nodes uncordon`?"),
    (("cordon",), 2, "NODE"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(words) for words, _, _ in WRONG])
def test_what_is_wrong_is_said(nodes: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    ran = nodes("nodes", *words)
    assert ran.code == code and said in ran.err and "Traceback" not in ran.err


def test_a_machine_is_described_with_what_it_did(nodes: Cli) -> None:
    """Of what is only declared nothing is sampled."""
    told = wait_until(lambda: next((out for out in [nodes("nodes", "describe", "local").out] if "MACHINE" in out), ""))
    assert "processors" in told and "LAST HOUR" in told
    assert "MACHINE" not in nodes("nodes", "describe", A).out.replace("MACHINE_TYPE", "")
    found = json.loads(nodes("nodes", "describe", "local", "--json").out)
    assert found["gpus"] == [] and [row["source"] for row in found["samples"]] == [""]
