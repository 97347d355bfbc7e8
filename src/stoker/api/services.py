"""What the routes call, and how they get at it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from stoker.config import Config
from stoker.control.commands import Commands
from stoker.core.errors import BadSpec, TooLarge, UnsupportedType, Violation
from stoker.engines.base import Engine
from stoker.store.base import Store
from stoker.store.files import Files
from stoker.store.logs import Logs

from .bell import Bell

LARGEST_BODY_BYTES = 10 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything behind the doors."""

    config: Config
    store: Store
    commands: Commands
    logs: Logs
    files: Files
    engines: dict[str, Engine]
    bell: Bell
    shut_down: Callable[[], None]


def services(request: Request) -> Services:
    """The services of the application that answers this request."""
    found: Services = request.app.state.services
    return found


def user(request: Request) -> str:
    """Who asks."""
    name: str = request.state.user
    return name


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises BadSpec, TooLarge or UnsupportedType; never more than the limit is held in memory."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY_BYTES:
            raise TooLarge(f"a request body may have {LARGEST_BODY_BYTES >> 20} MiB")
    if not body:
        return {}
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind and not (kind in ("application/json", "text/json") or kind.endswith("+json")):
        raise UnsupportedType(f"a body of the type {kind[:80]!r}", fix="send JSON: Content-Type: application/json")
    try:
        return json.loads(bytes(body), parse_constant=_no_constant)
    except RecursionError:
        raise BadSpec([Violation("body", "the JSON is nested too deeply")]) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise BadSpec([Violation("body", f"not JSON: {error}")]) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
