"""Ties the rooms together: the one place that knows them all."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.api.auth import Tokens, read_or_make_tokens
from stoker.api.notifier import Notifier
from stoker.api.rendezvous import Rendezvous
from stoker.api.services import Rounds, Services
from stoker.clock import Clock, ForwardClock, SystemClock
from stoker.config import Config
from stoker.control.commands import Commands
from stoker.control.enact import Enact, Runtimes
from stoker.control.loop import Loop
from stoker.control.queue_limit import QueueLimit
from stoker.control.replica_limits import limits_of
from stoker.control.unknown import Unknown
from stoker.core.errors import Unavailable
from stoker.core.images import PREBUILT
from stoker.engines.base import ServedEngine
from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.machine import this_machine, with_slots
from stoker.engines.local.pythons import find_uv
from stoker.engines.local.resources import Resources
from stoker.engines.virtual import declared_nodes
from stoker.gpu.driver import Driver
from stoker.insight.health_watch import BY, HealthWatch
from stoker.insight.idle import IdleRules, IdleWatch
from stoker.insight.ledgers import Ledgers
from stoker.insight.live_world import LiveWorld
from stoker.insight.queue_view import Queue
from stoker.parts import Background, alerts_of, history_of, host_watch, isolation_of, make_files, ray_engine
from stoker.registry import load, names
from stoker.runtime.zipapp import build as build_runtime
from stoker.sampling.here import SamplingHere
from stoker.sampling.monitor import Monitor
from stoker.scheduling.rules import rules_of
from stoker.simulate.outlooks import PlayedOutlooks
from stoker.site.site_file import read_site
from stoker.store.base import Store
from stoker.store.logs import Logs
from stoker.store.objects.objects import Objects
from stoker.store.objects.uploads import Uploads
from stoker.store.project_disk import ProjectDisk
from stoker.store.room import Room
from stoker.store.sql import SqlStore

if TYPE_CHECKING:
    pass

CLOCK_SECONDS = 60.0
"""By so much the clocks of two machines may differ before anybody is told."""

_log = logging.getLogger("stoker")


@dataclass(slots=True, kw_only=True)
class Stoker:
    """A whole Stoker, before any socket: everything tied, nothing running."""

    config: Config
    tokens: Tokens
    store: Store
    loop: Loop
    services: Services
    background: Sequence[Background]  # what goes on beside the loop, from when the server takes over
    take_over: Callable[[str], None]  # lets replicas find the server at an address, and ends those that nobody knows


def build(
    config: Config,
    *,
    url: str = "",
    clock: Clock | None = None,
    driver: Driver | None = None,
    upgrade: bool = True,
    leads: Callable[[], bool] = lambda: True,
    forget_unknown: bool = False,
    nicer: int = 0,
    server_has: Sequence[str] = (),
) -> Stoker:
    """Tie a Stoker together.

    `url`: where its replicas will reach it; empty, if that is said later. `upgrade`: whether it may bring the database's
    schema up to date. `leads`: whether it may write now. `forget_unknown`: see control/unknown.py. Raises NotYet, and leaves
    nothing behind that runs, if the database or its disk is not there now.
    `nicer`, `server_has`: what `be_server` gave.
    """
    home, machine_clock = config.home, clock or SystemClock()
    clock = ForwardClock(machine_clock)
    tokens = read_or_make_tokens(
        home, machine_clock, writes=leads
    )  # a token's end is not put off by what was written once
    store = SqlStore(config["database"] or home / "stoker.db", clock, upgrade=upgrade)
    try:
        return _tied(
            config,
            clock,
            tokens,
            store,
            url=url,
            driver=driver,
            leads=leads,
            forget_unknown=forget_unknown,
            nicer=nicer,
            server_has=server_has,
        )
    except BaseException:
        store.close()
        raise


def _tied(
    config: Config,
    clock: ForwardClock,
    tokens: Tokens,
    store: SqlStore,
    *,
    url: str,
    driver: Driver | None,
    leads: Callable[[], bool],
    forget_unknown: bool,
    nicer: int,
    server_has: Sequence[str],
) -> Stoker:
    home = config.home
    nodes = this_machine(driver or load("drivers", "nvml")(), os.environ.get("CUDA_VISIBLE_DEVICES")) + declared_nodes(
        config["fake"], "local"
    )
    slots = config["local_replicas"] or Resources.here().replicas
    nodes = with_slots(nodes, slots)
    if "local" not in config["engine"].split(","):
        nodes = []  # rehearsals bring their own
    isolation = isolation_of(config, nicer, server_has)
    runtime = Path(build_runtime(str(home / "cache")))
    logs = Logs(home / "logs", most_bytes=config["job_log_mb"] * 1e6, writes=leads)
    local = LocalEngine(
        home,
        nodes=nodes,
        runtime=runtime,
        server_url=url,
        token=tokens.of_attempt,
        uv=find_uv(),
        isolation=isolation,
        keep_runs_days=config["keep_runs_days"],
        kept=logs.kept_for_good,
    )
    engines: dict[str, ServedEngine] = {"local": local}
    rules = rules_of(read_site(config))
    pools = rules.site.pools
    elastic = None
    watch = None
    if "ray" in config["engine"].split(","):
        engines["ray"] = elastic = ray_engine(config, runtime, tokens, pools, isolation)
        watch = host_watch(config, elastic)
    elif pools:
        raise Unavailable(
            f"the site file has pools ({', '.join(pools)}), and no engine here orders machines",
            fix="stoker up --engine ray --address HOST:PORT, or take the pools out of the site file",
        )
    files = make_files(config, isolation)
    room = Room(config["reserve_mb"])
    objects = Objects(files, home, room)
    unknown = Unknown(home=home, store=store, logs=logs, engines=engines, forget=forget_unknown)
    ahead_seconds = 0.0
    images = {pattern: (sys.executable,) for pattern in PREBUILT}
    images |= {image: tuple(shlex.split(command)) for image, command in config["images"].items()}
    enact = Enact(
        engines=engines,
        kinds={name: load("kinds", name)() for name in names("kinds")},
        files=files,
        runtimes=Runtimes(default=sys.executable, by_version=config["runtimes"], images=images),
        limits=limits_of(config),
    )
    loop = Loop(
        store=store,
        logs=logs,
        engines=engines,
        rules=rules,
        enact=enact,
        clock=clock,
        hold=config["hold"],
        elastic=elastic if pools else None,
    )
    for engine in engines.values():
        engine.listen(loop.ring)

    def folder_problem(folders: Sequence[str]) -> str:
        try:
            return isolation.problem(folders)
        except OSError as error:  # somebody moves them about just now
            return f"{error.filename} cannot be looked at: {error.strerror}"

    def check_new_jobs() -> None:
        unknown.check()
        room.check(home, "new jobs")

    def problems() -> list[str]:
        of_engines = [engine.problem() for engine in engines.values()]
        of_hosts = watch.problems() if watch is not None else []
        own = (unknown.problem(), room.problem(home), _clock_problem(ahead_seconds))
        of_samples = [*monitor.problems(), sampling.problem() if sampling is not None else ""]
        return [*filter(None, (*own, *of_engines, *of_hosts, *of_samples))]

    monitor = Monitor(history_of(config, clock), clock.now)
    sampling = None
    if monitor.history is not None:
        sampling = SamplingHere(monitor, [node for node in nodes if not node.virtual], config["sample_seconds"])

    live = LiveWorld(store)
    ledgers = Ledgers(home / "goodput.db", store, logs, live, clock)
    commands = Commands(
        store=store,
        files=files,
        rules=rules,
        clock=clock,
        images=images,
        check_room=check_new_jobs,
        check_project=ProjectDisk(home, config["project_disk_gb"] * 1e9).check,
        folder_problem=lambda spec: folder_problem(enact.folders(spec)),
        rehearsal_replicas=slots,
        queue_limit=QueueLimit(store, clock, config["queued_jobs_per_user"]),
    )
    idle = IdleWatch(
        IdleRules(window_seconds=config["idle_seconds"], stop_seconds=config["idle_stop_seconds"]),
        store=store,
        logs=logs,
        monitor=monitor,
        live=live,
        clock=clock,
        stop=lambda job, why: commands.cancel(job, owner="site", why=why),
    )
    health = HealthWatch(
        monitor=monitor,
        live=live,
        clock=clock,
        cordon=lambda node, why: commands.cordon(node, owner=BY, why=why),
        uncordon=lambda node: commands.uncordon(node, owner=BY),
    )
    notifier = Notifier()
    store.listen(notifier.notify)
    logs.listen(notifier.notify_for)
    desk, alerting = alerts_of(
        config,
        store=store,
        live=live,
        logs=logs,
        site=rules.site,
        idle=idle.jobs,
        tokens=tokens.book,
        clock=clock,
        leads=leads,
    )
    store.listen(alerting.ring)
    services = Services(
        config=config,
        store=store,
        commands=commands,
        queue=Queue(store, rules, clock),
        live=live,
        outlooks=PlayedOutlooks(store=store, rules=rules, clock=clock, hold=config["hold"]),
        logs=logs,
        files=files,
        objects=objects,
        uploads=Uploads(home / "uploads", objects, clock),
        engines=dict(engines),
        monitor=monitor,
        ledgers=ledgers,
        idle=idle.jobs,
        checks_of=health.checks,
        rounds=lambda: Rounds(
            count=loop.rounds, seconds=loop.round_seconds, longest_seconds=loop.longest_round_seconds
        ),
        problems=problems,
        unknown=unknown,
        leases=loop.leases,
        isolation=isolation,
        notifier=notifier,
        rendezvous=Rendezvous(notifier),
        leads=leads,
        tokens=tokens.book,
        alerts=desk,
    )

    background: list[Background] = [ledgers, idle, health, alerting, *([sampling] if sampling is not None else [])]

    def take_over(url: str) -> None:
        nonlocal ahead_seconds
        ahead_seconds = clock.go_on_from(store.last_moment())
        unknown.look()
        spared = frozenset() if unknown.is_chosen else unknown.ids
        world = store.world()
        for name, engine in engines.items():
            engine.be_found_at(url)
            live = [attempt.id for attempt in world.attempts.values() if attempt.engine == name]
            seen = [node for node in world.nodes.values() if node.engine == name and not node.pool]
            engine.adopt(live, seen, unknown=spared)
        if unknown.is_chosen:
            unknown.put_away()
        loop.hold = config["hold"] or bool(unknown.ids)
        if watch is not None:
            watch.start()
        for part in background:
            part.start()
        for problem in filter(None, (unknown.problem(), _clock_problem(ahead_seconds))):
            _log.error("%s", problem)

    return Stoker(
        config=config,
        tokens=tokens,
        store=store,
        loop=loop,
        services=services,
        background=background,
        take_over=take_over,
    )


def _clock_problem(ahead_seconds: float) -> str:
    """What is wrong with this machine's clock, by what was written before; empty: nothing."""
    if ahead_seconds < CLOCK_SECONDS:
        return ""
    return (
        f"this machine's clock is {ahead_seconds / 60:,.0f} minutes behind the last moment that was written: time goes on from"
        " there until the clock has caught up and the server is started again; set the clock, if it is wrong"
    )
