"""A webhook: JSON by POST, signed."""

from __future__ import annotations

import json
import ssl

from stoker.alerts.channel import Means, Message
from stoker.alerts.http_post import check_url, post, shown_url
from stoker.alerts.signing import headers_of
from stoker.core.ids import split_job_id


class Webhook:
    """Implements Channel: a POST with a signature, to a program of the receiver's."""

    is_signed = True

    def __init__(self, means: Means, context: ssl.SSLContext | None = None) -> None:
        """`context`: whom to trust; None: whom the system trusts."""
        self._means = means
        self._context = context

    def check(self, target: str) -> None:
        """Raise BadSpec for what is no URL of a place that may be delivered to."""
        check_url(target, self._means)

    def shown(self, target: str) -> str:
        """The URL without its path."""
        return shown_url(target)

    def send(self, target: str, message: Message, secret: str, now: float) -> str:
        """Post it; returns what was answered. Raises NotDelivered."""
        body = json.dumps(_body(message)).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "stoker"}
        headers |= headers_of(secret, message.id, int(now), body)
        return post(target, body, headers, self._means, self._context)


def _body(message: Message) -> dict[str, object]:
    alert = message.alert
    project, name = split_job_id(alert.job) if alert.job else ("", "")
    return {
        "id": message.id,
        "event": alert.event,
        "subject": alert.subject,
        "title": alert.title,
        "text": alert.text,
        "at": alert.at,
        "project": project,
        "job": name,
        "owner": alert.owner,
        "rule": message.rule,
        "test": message.is_test,
    }
