"""`stoker logs`: what a job printed, on a terminal and off it."""

from __future__ import annotations

import getpass
import json
import re

import pytest

from tests.cli.conftest import Cli, on_a_terminal
from tests.conftest import Server, wait_until

EVIL = r"print('\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m \x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x1b]52;c;cm0=\x07end')"


@pytest.fixture
def evil(served: Cli) -> Cli:
    """A job that would like to own the terminal."""
    if served("jobs", "describe", "evil").code:
        (served.folder / "evil.py").write_text(EVIL + "\nimport sys\nprint('to stderr', file=sys.stderr)\n")
        served("run", "--name", "evil", "--", "python", "evil.py")
    return served


def test_on_a_terminal_only_colours_are_left(evil: Cli, server: Server) -> None:
    seen = on_a_terminal(server, "logs", "evil")
    assert "\x1b[31mred\x1b[0m link end\x1b[0m\n" in seen
    assert not [sign for sign in ("\x1b]", "\x07", "\x1b[2J", "title", "evil:") if sign in seen]


def test_off_a_terminal_not_even_those(evil: Cli) -> None:
    ran = evil("logs", "evil")
    assert (ran.out, ran.err) == ("red link end\n", "to stderr\n")
    assert "\x1b[31mred\x1b[0m link" in evil("logs", "evil", FORCE_COLOR="1").out


def test_json_holds_all_of_it_and_harms_nobody(evil: Cli) -> None:
    ran = evil("logs", "evil", "--json")
    first = json.loads(ran.out.splitlines()[0])
    assert first["text"].startswith("\x1b]0;title\x07") and "\x1b" not in ran.out
    assert (first["kind"], first["replica"], first["stream"]) == ("log", "chief-0", "out")


def test_a_table_on_a_terminal_has_straight_columns(evil: Cli, server: Server) -> None:
    seen = on_a_terminal(server, "jobs", "list", "--limit", "0", COLUMNS="300")  # all of them
    assert "\x1b[32mSUCCEEDED" in seen
    header, *rows = re.sub(r"\x1b\[\d*m", "", seen).splitlines()
    assert {row[header.index("USER") :].split()[0] for row in rows} == {getpass.getuser()}
    assert "\x1b[3" not in on_a_terminal(server, "jobs", "list", NO_COLOR="1")


def test_following_ends_with_the_jobs_result(served: Cli) -> None:
    served("run", "--async", "--name", "followed", "--", "sh", "-c", "echo one; sleep 0.3; echo two; exit 5")
    ran = served("logs", "-f", "followed")
    assert (ran.code, ran.out) == (5, "one\ntwo\n") and "failed" in ran.err
    assert (served("logs", "-f", "--json", "followed").code, served("logs", "followed").code) == (5, 0)


def test_one_replica(served: Cli) -> None:
    program = ("python", "-c", "import os; print('rank', os.environ['RANK'])")
    served("run", "--name", "of_three", "--workers", "2", "--", *program)
    wait_until(lambda: "chief-0" in served("logs", "of_three").out)
    assert served("logs", "of_three", "--replica", "chief-0").out == "rank 0\n"
    assert served("logs", "of_three", "--replica", "master-replica-0").out == "rank 0\n"
    assert [
        json.loads(x)["replica"] for x in served("logs", "of_three", "--replica", "chief-0", "--json").out.splitlines()
    ] == ["chief-0"]
    assert served("logs", "of_three", "--replica", "ps-0").code == 3


def test_nothing_printed_is_said(served: Cli) -> None:
    served("run", "--name", "silent", "--", "true")
    ran = served("logs", "silent")
    assert (ran.code, ran.out, ran.err) == (0, "", "silent has printed nothing so far\n")


def test_a_long_line_and_half_characters(served: Cli) -> None:
    (served.folder / "x.py").write_text("import sys\nsys.stdout.buffer.write(b'\\xff\\xfe' + b'x' * 200000 + b'\\n')\n")
    ran = served("run", "--name", "long_line", "--", "python", "x.py")
    assert ran.code == 0 and ran.out.startswith("��xxx") and len(ran.out) > 65_000  # the runtime cuts it
