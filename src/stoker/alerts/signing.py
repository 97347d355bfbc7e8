"""The signature of a message, in the form of Standard Webhooks, which libraries of many languages check. Pure.

What is signed is `id.timestamp.body`, so that neither of them can be changed, and an old message not be sent again as a new one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping

SECRET_PREFIX = "whsec_"


def new_secret() -> str:
    """A secret of 256 random bits."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def headers_of(secret: str, id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """The headers that a signed message bears."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }
