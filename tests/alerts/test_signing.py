"""The signature, against the published example of Standard Webhooks, and as docs/alerts.md checks it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stoker.alerts.signing import headers_of, new_secret

PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"


def test_it_is_the_one_of_the_standard() -> None:
    body = b'{"test": 2432232314}'
    found = headers_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def receiver() -> Any:
    """The function of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["is_from_stoker"]


@pytest.mark.parametrize("changed", ["", "id", "timestamp", "body", "secret", "late"])
def test_a_receiver_that_does_as_the_page_says_tells_ours_from_others(changed: str) -> None:
    secret, id, body, now = new_secret(), "m1", b'{"event": "job-failed"}', 1_700_000_000
    headers = dict(headers_of(secret, id, now, body))
    match changed:
        case "id":
            headers["webhook-id"] = "m2"
        case "timestamp":
            headers["webhook-timestamp"] = str(now + 1)
        case "body":
            body += b" "
        case "secret":
            secret = new_secret()
        case "late":
            now += 301
    assert receiver()(secret, headers, body, now) == (changed == "")
