"""What a channel is: a way by which alerts reach somebody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stoker.core.alerts import Alert

from .addresses import Resolve, resolve

SECONDS = 10.0
"""The most that one delivery takes, all together."""

SHOWN_CHARACTERS = 200
"""Of what a receiver answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the site gives to channels."""

    networks: Sequence[str] = ()  # that may be delivered to although they are not public
    smtp: str = ""  # the URL of the mail server; empty: there is none
    smtp_password: str = field(default="", repr=False)
    sender: str = ""  # the address that mail comes from
    resolve: Resolve = resolve
    seconds: float = SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One alert, as it is sent."""

    id: str  # the same over all tries
    alert: Alert
    rule: str  # the name of the rule
    is_test: bool = False


class NotDelivered(Exception):
    """Why a message was not taken, for people. It names no secret."""


class Channel(Protocol):
    """Delivers messages. Safe to call from any thread. It is made with the site's `Means`."""

    is_signed: bool  # whether its messages bear a signature, for which a rule has a secret

    def check(self, target: str) -> None:
        """Raise BadSpec for what cannot be, or may not be, delivered to."""
        ...

    def shown(self, target: str) -> str:
        """The target without what may be a secret."""
        ...

    def send(self, target: str, message: Message, secret: str, now: float) -> str:
        """Deliver a message at once; returns what was answered, in a line. Raises NotDelivered."""
        ...


def one_line(text: str, most: int = SHOWN_CHARACTERS) -> str:
    """A text as one line that may be printed anywhere."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= most else words[: most - 1] + "…"
