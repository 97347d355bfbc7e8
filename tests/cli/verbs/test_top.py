"""`stoker top` on a real terminal, on none, and when its server goes away and comes back."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.cli.conftest import Cli
from tests.cli.screen import Terminal
from tests.conftest import Server

COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|[34]8)(?:;[0-9;]*)?m")


def in_colour(server: Server) -> dict[str, str]:
    return {name: value for name, value in server.environment.items() if name != "NO_COLOR"}


def test_it_is_printed_once_where_there_is_no_terminal(served: Cli) -> None:
    for words in (("top",), ("top", "--once")):
        ran = served(*words)
        assert (ran.code, ran.err) == (0, "") and "\x1b" not in ran.out
        lines = ran.out.splitlines()
        assert lines[0].startswith("stoker top ") and "jobs " in lines[1] and lines[3].startswith("NODE")
        assert any(line.split()[:3] == ["virtual-8", "UP", "0/4"] for line in lines)


def test_the_data_of_it(served: Cli) -> None:
    found = json.loads(served("top", "--json").out)
    assert found["schema_version"] == 1 and {"virtual-8", "virtual-9"} <= {node["name"] for node in found["nodes"]}


def test_without_a_server_none_is_started(cli: Cli) -> None:
    ran = cli("top")
    assert ran.code == 5 and "stoker up" in ran.err and not (cli.home / "server.json").exists()


@pytest.mark.live
def test_the_full_screen_is_resized_and_left(server: Server) -> None:
    exported = {"COLUMNS": "80", "LINES": "24"}  # as some shells do: the size is still the terminal's
    with Terminal("top", environment={**in_colour(server), **exported}) as terminal:
        text = terminal.wait_for(lambda text: "virtual-8" in text and "q quit" in text)
        assert text.splitlines()[0].startswith("stoker top") and COLOUR.search(terminal.raw)
        for columns, lines in ((40, 12), (200, 50), (80, 24)):
            terminal.resize(columns, lines)
            terminal.wait_for(lambda text: "q quit" in text.split("\n")[-1] and "NODE" in text)
            assert len(terminal.text.split("\n")) == lines
        terminal.press("?")
        terminal.wait_for(lambda text: "sort GPUs by" in text)
        terminal.press("\x1b")
        terminal.wait_for(lambda text: "NODE" in text)
        terminal.press("q")
        assert terminal.end() == 0 and terminal.is_as_before and b"\x1b[?1049l" in terminal.raw
        assert b"Traceback" not in terminal.raw


@pytest.mark.live
@pytest.mark.parametrize("how", ["ctrl-c", "SIGTERM"])
def test_however_it_ends_the_terminal_is_as_before(server: Server, how: str) -> None:
    with Terminal("top", environment=in_colour(server)) as terminal:
        terminal.wait_for(lambda text: "q quit" in text)
        if how == "ctrl-c":
            terminal.press("\x03")
        else:
            os.kill(terminal.process.pid, signal.SIGTERM)
        terminal.end()
        assert terminal.is_as_before and b"\x1b[?1049l" in terminal.raw and b"Traceback" not in terminal.raw


@pytest.mark.live
def test_without_colours(server: Server) -> None:
    with Terminal("top", environment={**server.environment, "NO_COLOR": "1"}) as terminal:
        terminal.wait_for(lambda text: "virtual-8" in text and "q quit" in text)
        terminal.press("jj")
        terminal.press("q")
        terminal.end()
        assert not COLOUR.findall(terminal.raw)


@pytest.mark.live
def test_a_dumb_terminal_gets_it_once(server: Server) -> None:
    with Terminal("top", environment={**server.environment, "TERM": "dumb"}) as terminal:
        assert terminal.end() == 0
        assert b"stoker top" in terminal.raw and b"\x1b[?1049h" not in terminal.raw


@pytest.mark.live
def test_a_server_that_goes_away_and_comes_back(server: Server) -> None:
    with Terminal("top", environment=in_colour(server)) as terminal:
        terminal.wait_for(lambda text: "virtual-8" in text and "q quit" in text)
        os.kill(server.found.pid, signal.SIGKILL)
        terminal.wait_for(lambda text: "asked again" in text and "virtual-8" in text)  # what it showed last stays
        server.restart(kill=True)  # on another port
        terminal.wait_for(lambda text: "asked again" not in text and server.found.url in text)
        terminal.press("q")
        assert terminal.end() == 0
