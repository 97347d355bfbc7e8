"""Parts of a Stoker that are made as its settings say; app.py ties them together."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stoker.alerts.channel import Means
from stoker.alerts.conditions import Conditions
from stoker.alerts.desk import Desk
from stoker.alerts.making import Making
from stoker.alerts.reach import Reach, reach_by
from stoker.alerts.running import Alerting
from stoker.alerts.sending import Sending
from stoker.api.auth import NOBODY_KNOWN, Tokens, user_name
from stoker.clock import Clock
from stoker.config import Config
from stoker.core.errors import Unavailable
from stoker.core.node import NodeState
from stoker.core.site import Pool, Site
from stoker.engines.base import ElasticEngine
from stoker.engines.local.isolation import Isolation, detect
from stoker.engines.local.resources import Resources
from stoker.insight.idle import Idle
from stoker.insight.live_world import LiveWorld
from stoker.registry import load
from stoker.sampling.history import History, Keep
from stoker.sampling.monitor import COUNTERS
from stoker.store.alerts import AlertBook
from stoker.store.files import Files, has_cloud_credentials
from stoker.store.logs import Logs
from stoker.store.sql import SqlStore
from stoker.store.tokens import TokenBook

if TYPE_CHECKING:
    from stoker.engines.ray.hosts.head import Head
    from stoker.engines.ray.hosts.watch import HostWatch

_log = logging.getLogger("stoker")


class Background(Protocol):
    """What goes on beside the loop while the server leads."""

    def start(self) -> None:
        """Begin."""
        ...

    def end(self) -> None:
        """End, and keep what is to be kept. Also of one that has not begun."""
        ...


def history_of(config: Config, clock: Clock) -> History | None:
    """Where samples are kept; None where nothing is sampled, or they cannot be kept."""
    if not config["sample_seconds"]:
        return None
    keep = Keep(
        fine_days=config["samples_fine_days"],
        coarse_days=config["samples_coarse_days"],
        most_bytes=config["samples_gb"] * 1e9,
    )
    try:
        return History(config.home / "samples.db", COUNTERS, keep, clock.now)
    except (OSError, sqlite3.Error) as error:
        _log.error("nothing is sampled: %s cannot be used: %s", config.home / "samples.db", error)
        return None


def isolation_of(config: Config, nicer: int = 0, server_has: Sequence[str] = ()) -> Isolation:
    """How far this machine keeps programs apart, by the site's settings. Raises Unavailable for a level that it cannot.

    `nicer`, `server_has`: what `be_server` gave.
    """
    first, _, last = config["job_users"].partition("-")
    return detect(
        config["isolation"],
        config.home,
        folders=tuple(os.path.abspath(os.path.expanduser(folder)) for folder in config["job_folders"]),
        buckets=tuple(os.path.expanduser(folder) for folder in config["buckets"].values()),
        inherited=tuple(config["inherit_env"]),
        users=(int(first), int(last)),
        memory_bytes=int(config["job_memory_gb"] * 2**30),
        hold=config["hold_machines"],
        nicer=nicer,
        server_has=tuple(server_has),
        processes=Resources.here().tasks_of_replica if config["job_processes"] == "auto" else config["job_processes"],
        tmp_bytes=int(config["job_tmp_gb"] * 2**30),
    )


def ray_engine(
    config: Config, runtime: Path, tokens: Tokens, pools: Mapping[str, Pool], isolation: Isolation
) -> ElasticEngine:
    """The Ray cluster that the settings name. Raises Unavailable if they name none, or Ray is not installed."""
    if not config["address"]:
        raise Unavailable("which Ray cluster?", fix="stoker up --engine ray --address HOST:PORT, that of its head")
    if find_spec("ray") is None:
        raise Unavailable(
            "the engine ray needs Ray, which is not installed",
            fix="pip install 'stoker[ray]', in the version that the cluster has",
        )
    from stoker.engines.ray.node_settings import NodeSettings

    made: ElasticEngine = load("engines", "ray")(
        config.home,
        config["address"],
        runtime=runtime,
        server_url="",
        token=tokens.of_attempt,
        lease_seconds=config["lease_seconds"],
        pools=pools,
        settings=NodeSettings(
            isolation=config["isolation"],
            inherited=isolation.inherited,
            tmp_bytes=isolation.tmp_bytes,
            job_folders=isolation.folders,
            shared_folders=tuple(os.path.abspath(os.path.expanduser(folder)) for folder in config["shared_folders"]),
            user_of=isolation.user_of,
        ),
        head=head_of(config),
    )
    return made


def host_watch(config: Config, ray: ElasticEngine) -> HostWatch | None:
    """The look after machines that were added by SSH, where there are some."""
    from stoker.engines.ray.hosts.watch import HostWatch

    return HostWatch(config.home, lambda address: _is_up(ray, address)) if head_of(config) is not None else None


def _is_up(ray: ElasticEngine, address: str) -> bool:
    return any(node.name.startswith(f"{address}-") and node.state is NodeState.UP for node in ray.nodes())


def head_of(config: Config) -> Head | None:
    """Ray's head, where this home has one of its own, and the settings name that."""
    from stoker.engines.ray.hosts.head import Head

    head = Head(config.home)
    return head if head.place is not None and head.place.address == config["address"] else None


def make_files(config: Config, isolation: Isolation) -> Files:
    """The site's files, by its settings."""
    choice = config["unmapped_buckets"]
    keep_here = choice == "here" or (choice == "auto" and not has_cloud_credentials(os.environ))
    return Files(
        config.home / "buckets",
        buckets=config["buckets"],
        keep_buckets_here=keep_here,
        job_folders=isolation.folders,
        user_of=isolation.user_of,
    )


def alerts_of(
    config: Config,
    *,
    store: SqlStore,
    live: LiveWorld,
    logs: Logs,
    site: Site,
    idle: Callable[[], Mapping[str, Idle]],
    tokens: TokenBook,
    clock: Clock,
    leads: Callable[[], bool],
) -> tuple[Desk, Alerting]:
    """What users ask about alerts, and the thread that brings them. It does not run yet."""
    means = Means(
        networks=config["alerts_networks"],
        smtp=config["smtp"],
        smtp_password=config["smtp_password"],
        sender=config["alerts_from"],
    )
    conditions = Conditions(
        store=store,
        live=live,
        logs=logs,
        site=site,
        clock=clock,
        home=config.home,
        reserve_mb=config["reserve_mb"],
        idle=idle,
    )

    def channels(name: str) -> Any:
        return load("channels", name)(means)

    def reach(user: str) -> Reach | None:
        return reach_by(tokens.tokens(), (user_name(), NOBODY_KNOWN), user, clock.now())

    book = AlertBook(store.database, clock)
    making = Making(store=store, book=book, reach=reach, look=conditions.look, clock=clock)
    sending = Sending(book=book, channels=channels, reach=reach, clock=clock)
    alerting = Alerting(making=making, sending=sending, book=book, leads=leads)
    sending.done = alerting.ring
    return Desk(book=book, channels=channels, clock=clock), alerting
