"""Slack's JSON, to a real HTTP server."""

from __future__ import annotations

import json

import pytest

from stoker.alerts.channel import Means, Message
from stoker.alerts.channels.slack import Slack
from tests.alerts.builders import an_alert
from tests.alerts.receivers import LOOPBACK, a_receiver


@pytest.mark.parametrize(
    ("text", "is_test", "said"),
    [
        ("exit 3", False, "*p/j has failed*\nexit 3\n_job-failed_"),
        ("", True, "*Test: p/j has failed*\n_job-failed_"),
        (
            "<!channel> <http://x|y> a&b",
            False,
            "*p/j has failed*\n&lt;!channel&gt; &lt;http://x|y&gt; a&amp;b\n_job-failed_",
        ),
    ],
)
def test_a_text_in_which_a_job_can_name_nobody(text: str, is_test: bool, said: str) -> None:
    message = Message(id="m", alert=an_alert(text=text), rule="r", is_test=is_test)
    with a_receiver(says=b"ok") as receiver:
        assert Slack(Means(networks=LOOPBACK)).send(receiver.url(), message, "", 1.0) == "200 OK: ok"
    (posted,) = receiver.posted
    assert json.loads(posted.body) == {"text": said} and "webhook-signature" not in posted.headers
