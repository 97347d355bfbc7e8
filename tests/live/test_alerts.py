"""A real server is killed between an event and its delivery, and the next one delivers it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from tests.alerts.receivers import a_mail_server, a_receiver
from tests.conftest import Server, wait_until
from tests.homes import a_home

pytestmark = pytest.mark.live


@pytest.fixture
def alerting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, not started yet: its settings are to be written first."""
    home = a_home(tmp_path_factory.mktemp("home"))
    made = Server(home, embedded.Found("", 0, "", ""), Client("http://127.0.0.1:1", ""), ("--port=0",))
    yield made
    made.cli("down", "--cancel-jobs")
    made.client.close()


def start(server: Server, **settings: object) -> None:
    (server.home / "config.yaml").write_text(json.dumps({"alerts_networks": ["127.0.0.0/8"], **settings}))
    server.found = embedded.start(read_config({"STOKER_HOME": str(server.home)}), server.flags)
    server.client.close()
    server.client = Client(server.found.url, server.found.token)


def rule(server: Server) -> dict[str, object]:
    return dict(server.client.alerts()[0])


def test_a_server_that_is_killed_between_event_and_delivery_loses_none(alerting: Server) -> None:
    start(alerting)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    body = {"name": "hook", "channel": "webhook", "target": f"http://127.0.0.1:{port}/", "events": ["node-cordoned"]}
    alerting.client.add_alert(body)
    alerting.client.cordon("local", why="first")
    wait_until(lambda: rule(alerting)["last_answer"] == "Connection refused")
    alerting.client.uncordon("local")
    for n in range(3):  # killed at once: nobody has looked at the story, or somebody is about to
        alerting.client.run("p", {"name": f"j{n}", "command": ["true"]})
    alerting.client.add_alert({**body, "name": "ends", "events": ["job-ended"]})
    alerting.client.cancel("p", "j0")
    alerting.restart(kill=True)
    wait_until(lambda: alerting.client.details("p", "j0")["state"] in ("CANCELLED", "SUCCEEDED"))
    with a_receiver(port=port) as receiver:

        def told() -> set[tuple[str, str]]:
            bodies = [json.loads(posted.body) for posted in receiver.posted]
            return {(found["rule"], found["subject"]) for found in bodies}

        wait_until(lambda: ("hook", "local") in told() and ("ends", "p/j0") in told(), 60.0)
        wait_until(lambda: rule(alerting)["waiting"] == 0)


def test_mail_arrives_and_its_password_is_nowhere(alerting: Server) -> None:
    with a_mail_server() as mails:
        start(
            alerting,
            smtp=f"smtp://127.0.0.1:{mails.port}",
            smtp_password="hunter2hunter2",
            alerts_from="stoker@example.org",
        )
        asked = {"name": "me", "channel": "email", "target": "ada@example.org", "events": ["job-failed"]}
        assert alerting.client.add_alert(asked)["secret"] == ""
        alerting.client.run("p", {"name": "j", "command": ["python", "-c", "raise SystemExit(3)"]})
        wait_until(lambda: mails.mails)
        assert b"Subject: [Stoker] p/j has failed" in mails.mails[0] and mails.to == [["ada@example.org"]]
        shown = alerting.cli("config", "list").stdout + alerting.cli("alerts", "list", "--json").stdout
    log = (alerting.home / "server.log").read_text()
    assert "hunter2" not in shown + log and "smtp_password" in shown
