"""Webhooks, to a real HTTP server."""

from __future__ import annotations

import json

from stoker.alerts.channel import Means, Message
from stoker.alerts.channels.webhook import Webhook
from stoker.alerts.signing import headers_of, new_secret
from stoker.core.alerts import Alert
from tests.alerts.builders import an_alert
from tests.alerts.receivers import LOOPBACK, a_receiver


def test_what_is_posted_is_signed() -> None:
    channel, secret = Webhook(Means(networks=LOOPBACK)), new_secret()
    message = Message(id="m1", alert=an_alert(text='exit 3: "ü"'), rule="r")
    with a_receiver() as receiver:
        assert channel.send(receiver.url("/x?y=z"), message, secret, 1_700_000_000.9) == "200 OK: thanks"
    (posted,) = receiver.posted
    assert json.loads(posted.body) == {
        "id": "m1",
        "event": "job-failed",
        "subject": "p/j",
        "title": "p/j has failed",
        "text": 'exit 3: "ü"',
        "at": 1_000_000.0,
        "project": "p",
        "job": "j",
        "owner": "ada",
        "rule": "r",
        "test": False,
    }
    assert posted.path == "/x?y=z" and posted.headers["content-type"] == "application/json"
    wanted = headers_of(secret, "m1", 1_700_000_000, posted.body)
    assert {name: posted.headers[name] for name in wanted} == wanted


def test_of_the_site_no_job_is_named() -> None:
    alert = Alert(event="disk-low", subject="/home", at=1.0, title="low")
    with a_receiver() as receiver:
        Webhook(Means(networks=LOOPBACK)).send(
            receiver.url(), Message(id="m", alert=alert, rule="r"), new_secret(), 1.0
        )
    body = json.loads(receiver.posted[0].body)
    assert (body["project"], body["job"], body["owner"], body["subject"]) == ("", "", "", "/home")
