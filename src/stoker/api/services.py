"""What the routes call, and how they get at it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client import Histogram
from starlette.requests import Request

from stoker.alerts.desk import Desk
from stoker.api.pools import in_thread
from stoker.config import Config
from stoker.control.commands import Commands
from stoker.control.leading import not_leading
from stoker.control.leases import Leases
from stoker.control.unknown import Unknown
from stoker.core.errors import BadSpec, NotFound, StokerError, TooLarge, UnsupportedType, Violation
from stoker.core.ids import PROJECT_NAME
from stoker.engines.base import Engine
from stoker.engines.local.isolation import Isolation
from stoker.engines.local.pythons import find_uv, surroundings
from stoker.insight.health import Check
from stoker.insight.idle import Idle
from stoker.insight.ledgers import Ledgers
from stoker.insight.live_world import LiveWorld
from stoker.insight.outlook import Outlooks
from stoker.insight.queue_view import Queue
from stoker.sampling.monitor import Monitor
from stoker.store.base import Store
from stoker.store.files import Files
from stoker.store.logs import Logs
from stoker.store.objects.objects import Objects
from stoker.store.objects.uploads import Uploads
from stoker.store.tokens import TokenBook

from .access import Access
from .notifier import Notifier
from .rendezvous import Rendezvous
from .timing import new_histogram
from .translation import SiteRules
from .turns import Turns

LARGEST_BODY_BYTES = 10 << 20
_LARGE_BODY_BYTES = 1 << 16
_MAY_BE_INFINITE = re.compile(rb"[eE][+]?[0-9]{3}|[0-9]{300}")
TAKEN = "choose another name: that of a job stays taken, also when it has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What the control loop has done since the server was started."""

    count: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything behind the doors."""

    config: Config
    store: Store
    commands: Commands
    queue: Queue
    live: LiveWorld
    outlooks: Outlooks
    logs: Logs
    files: Files
    objects: Objects
    uploads: Uploads
    engines: dict[str, Engine]
    monitor: Monitor
    ledgers: Ledgers
    idle: Callable[[], Mapping[str, Idle]] = dict  # jobs that hold GPUs and do nothing with them
    checks_of: Callable[[str], Sequence[Check]] = lambda node: ()  # the checks of a machine, by its name
    leases: Leases
    isolation: Isolation
    notifier: Notifier
    rendezvous: Rendezvous
    tokens: TokenBook
    alerts: Desk
    unknown: Unknown
    turns: Turns = field(default_factory=Turns)  # of who keeps lines
    answer_seconds: Histogram = field(default_factory=new_histogram)
    rounds: Callable[[], Rounds] = Rounds
    shut_down: Callable[[], None] = lambda: None
    leads: Callable[[], bool] = lambda: True  # or it stands by
    problems: Callable[[], list[str]] = list  # why something cannot be used now, and what to do

    def refusal(self) -> StokerError:
        """What is said to who wants something changed while another server leads."""
        return not_leading(self.store.leader())


def services(request: Request) -> Services:
    """The services of the application that answers this request, as far as they are open to who asks."""
    site: Services = request.app.state.services
    access = access_of(request)
    files = site.files.of(access.user)
    if not access.is_admin:
        files = files.limited(access.buckets if access.projects else None)
    return _with_files(site, files)


def _with_files(site: Services, files: Files) -> Services:
    """The same, with no more files than the token opens: whichever way they are named."""
    objects = site.objects.through(files)
    return replace(site, files=files, objects=objects, uploads=site.uploads.through(objects))


def access_of(request: Request) -> Access:
    """Who asks, and what they may see. The guard has found out; without it there is no answer."""
    found: Access = request.state.access
    return found


def site_rules(site: Services) -> SiteRules:
    """What this site's settings add to the rules."""
    return SiteRules(
        runtimes=surroundings(site.config["runtimes"], find_uv()),
        strict_runtimes=site.config["strict_runtimes"],
        grace_seconds=site.config["grace_seconds"],
        hang_seconds=site.config["hang_seconds"],
    )


def check_places(files: Files, job_dir: tuple[str, str], **fields: Sequence[str]) -> None:
    """Raise BadSpec for what leads nowhere, or out of its bucket: at submission, not when the job starts.

    `job_dir`: its field, and what it says.
    """
    violations: list[Violation] = []
    for name, uris in (*fields.items(), (job_dir[0], job_dir[1:])):
        for uri in filter(None, uris):
            try:
                files.check(uri, is_programs=name == job_dir[0])
            except BadSpec as error:
                violations += [Violation(name, found.description) for found in error.violations]
            except NotFound as error:  # a bucket that is not there for who asks
                violations.append(Violation(name, error.message + (f"; {error.fix}" if error.fix else "")))
    if violations:
        raise BadSpec(violations)


def check_project(project: str) -> None:
    """Raise BadSpec for what cannot be a project's id."""
    if not PROJECT_NAME.fullmatch(project):
        raise BadSpec([Violation("parent", f"{project[:80]!r} cannot be a project's id")])


def user(request: Request) -> str:
    """Who asks."""
    return access_of(request).user


async def read_body(request: Request, most_bytes: int = LARGEST_BODY_BYTES) -> bytes:
    """The body. Raises TooLarge; never more than the limit is held in memory."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise TooLarge(f"a request body may have {most_bytes >> 20} MiB")
    return bytes(body)


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises BadSpec, TooLarge or UnsupportedType."""
    return await json_of(request, await read_body(request))


async def json_of(request: Request, body: bytes) -> Any:
    """A body that has been read, as JSON. Raises BadSpec or UnsupportedType."""
    if not body:
        return {}
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind and not (kind in ("application/json", "text/json") or kind.endswith("+json")):
        raise UnsupportedType(f"a body of the type {kind[:80]!r}", fix="send JSON: Content-Type: application/json")
    try:
        if len(body) > _LARGE_BODY_BYTES:
            return await in_thread(_parsed, body)  # others are answered meanwhile
        return _parsed(body)
    except RecursionError:
        raise BadSpec([Violation("body", "the JSON is nested too deeply")]) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise BadSpec([Violation("body", f"not JSON: {error}")]) from None


def _parsed(body: bytes) -> Any:
    if _MAY_BE_INFINITE.search(body):
        return json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    return json.loads(body, parse_constant=_no_constant)


def _finite(digits: str) -> float:
    """A number that is written with a point or an exponent. Raises ValueError for one that is out of reach: 1e999."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
