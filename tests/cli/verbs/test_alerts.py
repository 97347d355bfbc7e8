"""`stoker alerts`, with a real server and a real receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from tests.alerts.receivers import Receiver, a_receiver
from tests.cli.conftest import Cli
from tests.conftest import Server, wait_until
from tests.homes import a_home


@pytest.fixture(scope="module")
def alerting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may deliver to loopback."""
    home = a_home(tmp_path_factory.mktemp("home"))
    (home / "config.yaml").write_text("alerts_networks: [127.0.0.0/8]\n")
    config = read_config({"STOKER_HOME": str(home)})
    found = embedded.start(config, ("--port=0",))
    made = Server(home, found, Client(found.url, found.token), ("--port=0",))
    yield made
    made.cli("down", "--cancel-jobs")
    made.client.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with a_receiver() as made:
        yield made


@pytest.fixture
def served(cli: Cli, alerting: Server) -> Cli:
    """The command line at the home of that server."""
    return Cli(cli.monkeypatch, cli.capsys, alerting.home, cli.folder)


def test_a_rule_from_its_beginning_to_its_end(served: Cli, receiver: Receiver) -> None:
    added = served("alerts", "add", "hook", "--webhook", receiver.url("/secret"), "--event", "node-cordoned")
    assert added.code == 0 and added.out.startswith("whsec_") and "secret)" not in added.out
    assert "hook tells http://127.0.0.1:" in added.err and "/secret" not in added.err
    assert served("alerts", "add", "hook", "--webhook", receiver.url()).code != 0
    tried = served("alerts", "test", "hook")
    assert (tried.code, tried.err) == (0, "✓ taken: 200 OK: thanks\n")
    assert served("nodes", "cordon", "local", "--why", "new driver").code == 0
    wait_until(lambda: len(receiver.posted) == 2)
    served("nodes", "uncordon", "local")
    body = json.loads(receiver.posted[1].body)
    assert (body["event"], body["title"]) == ("node-cordoned", "Node local is cordoned")
    wait_until(lambda: json.loads(served("alerts", "list", "--json").out)["rules"][0]["delivered"] == 1)
    listed = served("alerts", "list", "--everyone").out.splitlines()
    assert listed[0].split() == ["NAME", "OWNER", "TO", "EVENTS", "OF", "SENT", "WAIT", "GIVEN_UP"]
    assert listed[1].startswith("hook") and listed[1].split()[-3:] == ["1", "0", "0"]
    assert served("alerts", "remove", "hook").err == "✓ hook is removed\n"
    assert "there are none: stoker alerts add" in served("alerts", "list").err


def test_what_is_not_taken_is_told(served: Cli, receiver: Receiver) -> None:
    receiver.statuses = [503]
    served("alerts", "add", "bad", "--slack", receiver.url(), "--event", "node-cordoned")
    tried = served("alerts", "test", "bad")
    assert (tried.code, tried.err) == (1, "! not taken: 503 Service Unavailable: thanks\n")
    served("nodes", "cordon", "local")
    served("nodes", "uncordon", "local")
    wait_until(lambda: "bad: 503 Service Unavailable: thanks; again at " in served("alerts", "list").err)
    served("alerts", "remove", "bad")


def test_a_url_may_come_from_standard_input(served: Cli, receiver: Receiver, tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text(receiver.url("/quiet") + "\n")
    with url.open() as file:
        served.monkeypatch.setattr("sys.stdin", file)
        assert served("alerts", "add", "quiet", "--webhook", "-").code == 0
    assert served("alerts", "test", "quiet").code == 0
    assert receiver.posted[0].path == "/quiet"
    served("alerts", "remove", "quiet")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x",), "one of --email, --slack, --webhook is needed"),
        (("x", "--webhook", "http://a", "--slack", "http://b"), "and no more than one"),
        (("x", "--webhook", "http://10.0.0.1/"), "10.0.0.1 is not a public address"),
        (("x", "--webhook", "http://127.0.0.1/", "--event", "job-fail"), "did you mean job-failed?"),
        (("x", "--email", "ada@example.org"), "this site sends no e-mail"),
        (("X!", "--webhook", "http://127.0.0.1/"), "cannot be a rule's name"),
        (("x", "--webhook", "-"), "is no scheme"),
    ],
)
def test_what_is_wrong_is_told(served: Cli, words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open() as nothing:
        served.monkeypatch.setattr("sys.stdin", nothing)
        ran = served("alerts", "add", *words)
    assert ran.code != 0 and said in " ".join(ran.err.split()) and "Traceback" not in ran.err


@pytest.mark.parametrize("verb", ["test", "remove"])
def test_a_rule_that_is_not_there(served: Cli, verb: str) -> None:
    ran = served("alerts", verb, "none")
    assert ran.code != 0 and "no rule 'none'" in ran.err and "stoker alerts list shows them" in ran.err
