"""Slack, and what takes the same JSON: Mattermost, Rocket.Chat, Discord under `…/slack`."""

from __future__ import annotations

import json
import ssl

from stoker.alerts.channel import Means, Message
from stoker.alerts.http_post import check_url, post, shown_url


class Slack:
    """Implements Channel: an incoming webhook of a chat. Its URL is the secret."""

    is_signed = False

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
        alert = message.alert
        test = "Test: " if message.is_test else ""
        lines = [
            f"*{test}{_escaped(alert.title)}*",
            *([_escaped(alert.text)] if alert.text else []),
            f"_{alert.event}_",
        ]
        body = json.dumps({"text": "\n".join(lines)}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "stoker"}
        return post(target, body, headers, self._means, self._context)


def _escaped(text: str) -> str:
    """What a job printed is no mark-up: it can name nobody (`<!channel>`) and hide no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
