"""Ties the rooms together: the one place that knows them all."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import resource
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import psutil

from stoker import __version__
from stoker.api.auth import LOOPBACK_NAMES, Tokens, allowed_hosts, read_or_make_tokens
from stoker.api.bell import Bell
from stoker.api.services import Services
from stoker.clock import Clock, SystemClock
from stoker.config import Config
from stoker.control.commands import Commands
from stoker.control.enact import Enact, Runtimes
from stoker.control.leading import Leading
from stoker.control.live import LiveWorld
from stoker.control.loop import Loop
from stoker.control.queue import Queue
from stoker.control.queue_limit import QueueLimit
from stoker.control.site_file import read_site
from stoker.core.errors import Unavailable
from stoker.core.images import PREBUILT
from stoker.core.site import Pool
from stoker.engines.base import ElasticEngine, ServedEngine
from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.isolation import Isolation, detect
from stoker.engines.local.machine import this_machine
from stoker.engines.virtual import declared_nodes
from stoker.gpu.device import Driver
from stoker.registry import load, names
from stoker.runtime.umask import close_files
from stoker.runtime.zipapp import build as build_runtime
from stoker.scheduling.rules import rules_of
from stoker.simulate.outlooks import PlayedOutlooks
from stoker.store.base import Store
from stoker.store.files import Files, has_cloud_credentials
from stoker.store.lead import lead_of
from stoker.store.logs import Logs
from stoker.store.objects.objects import Objects
from stoker.store.objects.uploads import Uploads
from stoker.store.restore import check_whole
from stoker.store.room import Room
from stoker.store.sql import SqlStore

MOST_FILES = 65_536
GARBAGE_THRESHOLD = 10_000
"""So many new objects that others refer to, before the youngest are looked through."""

SWITCH_SECONDS = 0.001
"""So long one thread keeps the interpreter while another waits for it. By default five times as long: a request goes from thread
to thread, and each row of a database is a chance to wait."""

_M_ARENA_MAX = -8  # malloc.h of glibc
_log = logging.getLogger("stoker")


@dataclass(slots=True, kw_only=True)
class Stoker:
    """A whole Stoker, before any socket: everything tied, nothing running."""

    config: Config
    tokens: Tokens
    store: Store
    loop: Loop
    services: Services
    take_over: Callable[[str], None]  # lets replicas find the server at an address, and ends those that nobody knows


def build(
    config: Config,
    *,
    url: str = "",
    clock: Clock | None = None,
    driver: Driver | None = None,
    upgrade: bool = True,
    leads: Callable[[], bool] = lambda: True,
) -> Stoker:
    """Tie a Stoker together.

    `url`: where its replicas will reach it; empty, if that is said later. `upgrade`: whether it may bring the database's
    schema up to date. `leads`: whether it may write now.
    """
    home, clock = config.home, clock or SystemClock()
    tokens = read_or_make_tokens(home, clock, writes=leads)
    nodes = this_machine(driver or load("drivers", "nvml")(), os.environ.get("CUDA_VISIBLE_DEVICES")) + declared_nodes(
        config["fake"], "local"
    )
    if "local" not in config["engine"].split(","):
        nodes = []  # rehearsals bring their own
    isolation = isolation_of(config)
    runtime = Path(build_runtime(str(home / "cache")))
    local = LocalEngine(
        home,
        nodes=nodes,
        runtime=runtime,
        server_url=url,
        token=tokens.of_attempt,
        uv=_find_uv(),
        isolation=isolation,
        keep_runs_days=config["keep_runs_days"],
    )
    engines: dict[str, ServedEngine] = {"local": local}
    rules = rules_of(read_site(config))
    pools = rules.site.pools
    elastic = None
    if "ray" in config["engine"].split(","):
        engines["ray"] = elastic = ray_engine(config, runtime, tokens, pools)
    elif pools:
        raise Unavailable(
            f"the site file has pools ({', '.join(pools)}), and no engine here orders machines",
            fix="stoker up --engine ray --address HOST:PORT, or take the pools out of the site file",
        )
    store = SqlStore(config["database"] or home / "stoker.db", clock, upgrade=upgrade)
    files = make_files(config)
    room = Room(config["reserve_mb"])
    objects = Objects(files, home, room)
    logs = Logs(home / "logs", writes=leads)
    images = {pattern: (sys.executable,) for pattern in PREBUILT}
    images |= {image: tuple(shlex.split(command)) for image, command in config["images"].items()}
    enact = Enact(
        engines=engines,
        kinds={name: load("kinds", name)() for name in names("kinds")},
        files=files,
        runtimes=Runtimes(default=sys.executable, by_version=config["runtimes"], images=images),
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
    bell = Bell()
    store.listen(bell.ring)
    logs.listen(bell.ring_for)
    services = Services(
        config=config,
        store=store,
        commands=Commands(
            store=store,
            files=files,
            rules=rules,
            clock=clock,
            images=images,
            check_room=lambda: room.check(home, "new jobs"),
            folder_problem=lambda spec: isolation.problem(enact.folders(spec)) if nodes else "",
            queue_limit=QueueLimit(store, clock, config["queued_jobs_per_user"]),
        ),
        queue=Queue(store, rules, clock),
        live=LiveWorld(store),
        outlooks=PlayedOutlooks(store=store, rules=rules, clock=clock, hold=config["hold"]),
        logs=logs,
        files=files,
        objects=objects,
        uploads=Uploads(home / "uploads", objects, clock),
        engines=dict(engines),
        problems=lambda: [problem for engine in engines.values() if (problem := engine.problem())],
        leases=loop.leases,
        isolation=isolation,
        bell=bell,
        leads=leads,
        tokens=tokens.book,
    )

    def take_over(url: str) -> None:
        world = store.world()
        for name, engine in engines.items():
            engine.be_found_at(url)
            live = [attempt.id for attempt in world.attempts.values() if attempt.engine == name]
            engine.adopt(live, [node for node in world.nodes.values() if node.engine == name and not node.pool])

    return Stoker(config=config, tokens=tokens, store=store, loop=loop, services=services, take_over=take_over)


def serve(config: Config, *, standby: bool = False) -> None:
    """Run the server until it is told to end. `standby`: also while another leads. Raises Unavailable if it cannot start."""
    import uvicorn

    from stoker.api.app import make_app
    from stoker.api.protocol import PatientProtocol, check_uvicorn

    check_uvicorn()
    keep_one_arena()
    close_files()
    home = config.home
    lead = lead_of(home, config["database"])
    is_first = lead.take()
    check_whole(home)
    if not is_first and not standby:
        raise Unavailable(
            f"another server uses {config.shown_database} already",
            fix="stoker status shows it; stoker up --standby takes over from it; or set STOKER_HOME to another folder",
        )
    listening = listen(config)
    host, port = config["host"], listening.getsockname()[1]
    check_exposure(config)
    url = f"http://{host if ':' not in host else f'[{host}]'}:{port}"
    leading: Leading | None = None
    stoker = build(config, upgrade=is_first, leads=lambda: leading is not None and leading.leads())
    server: uvicorn.Server | None = None

    def shut_down() -> None:
        if server is not None:
            server.should_exit = True
        stoker.services.bell.closed = True
        stoker.services.bell.ring()

    services = replace(stoker.services, shut_down=shut_down)
    app = make_app(services, stoker.tokens, allowed_hosts(host, port), needs_token=config["auth"])
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",  # what strangers send is no news: a warning for each would fill the log
            access_log=False,
            timeout_graceful_shutdown=2,
            server_header=False,
            http=PatientProtocol,
            loop="asyncio",  # also where uvloop happens to be installed: one loop, which is tested
            ws="none",
            proxy_headers=False,  # anybody can write X-Forwarded-For
        )
    )
    about = {"url": url, "pid": os.getpid(), "version": __version__, "started_at": time.time(), "auth": config["auth"]}
    mine = home / f"standby-{os.getpid()}.json"

    def began() -> None:
        stoker.take_over(url)
        _write(home / "server.json", json.dumps(about))
        mine.unlink(missing_ok=True)

    leading = Leading(
        lead=lead, store=stoker.store, loop=stoker.loop, who=url, began=began, looked=stoker.services.bell.ring
    )
    try:
        if is_first:
            leading.begin()
        else:
            home.mkdir(parents=True, exist_ok=True)
            for left in home.glob("standby-*.json"):  # by one that was killed
                if not psutil.pid_exists(_pid_in(left)):
                    left.unlink(missing_ok=True)
            _write(mine, json.dumps(about))
        leading.start()
        make_room_for_many()
        does = "leads" if is_first else "stands by"
        _log.warning("stoker %s listens on %s, home %s, and %s", __version__, url, home, does)
        server.run(sockets=[listening])
    finally:
        for named in (mine, home / "server.json"):
            if _pid_in(named) == os.getpid():
                named.unlink(missing_ok=True)
        leading.stop()
        stoker.store.close()


def keep_one_arena() -> None:
    """Let all threads take memory from one place, where the C library can be told to (glibc). To be called before they start.

    Otherwise each gets a place of its own, and fills it with gaps: under a crowd the server grew by 80 MB an hour. A second
    place would save waiting for a lock, and one interpreter does not wait there.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def make_room_for_many() -> None:
    """Serve as many at a time as the system lets us, and look for garbage only among what came after the start.

    Every supervisor keeps a connection open, and the usual 1,024 files are soon used up. And what a server has read by now it
    keeps: to look through it again and again would stop everybody for a tenth of a second each time.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)
    sys.setswitchinterval(SWITCH_SECONDS)


def listen(config: Config) -> socket.socket:
    """A listening socket. A port that nobody chose may give way to a free one; a chosen one that is busy is an error."""
    host, port = config["host"], config["port"]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [port] if config.values["port"].source != "default" else [port, 0]
    for candidate in ports:
        # The protocol is named so that asyncio sees TCP and sends answers at once (TCP_NODELAY), not 40 ms later.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(2048)
            return listening
        except OSError as error:
            listening.close()
            problem = error
    raise Unavailable(
        f"cannot listen on {host}:{port}: {problem.strerror or problem}",
        fix="another program may use that port: choose another with --port, or 0 for any",
    )


def check_exposure(config: Config) -> None:
    """Without a token nobody but this machine may reach the server. Raises Unavailable."""
    is_loopback = config["host"] in (*LOOPBACK_NAMES, "::1") or config["host"].startswith("127.")
    if not config["auth"] and not is_loopback:
        raise Unavailable(
            f"refusing to listen on {config['host']} without a token: anybody there could run code here",
            fix="leave --no-auth out, or listen on 127.0.0.1",
        )


def isolation_of(config: Config) -> Isolation:
    """How far this machine keeps programs apart, by the site's settings. Raises Unavailable for a level that it cannot."""
    first, _, last = config["job_users"].partition("-")
    return detect(
        config["isolation"],
        config.home,
        folders=tuple(os.path.abspath(os.path.expanduser(folder)) for folder in config["job_folders"]),
        buckets=tuple(os.path.expanduser(folder) for folder in config["buckets"].values()),
        inherited=tuple(config["inherit_env"]),
        users=(int(first), int(last)),
        memory_bytes=int(config["job_memory_gb"] * 2**30),
        tmp_bytes=int(config["job_tmp_gb"] * 2**30),
        processes=config["job_processes"],
    )


def ray_engine(config: Config, runtime: Path, tokens: Tokens, pools: Mapping[str, Pool]) -> ElasticEngine:
    """The Ray cluster that the settings name. Raises Unavailable if they name none, or Ray is not installed."""
    if not config["address"]:
        raise Unavailable("which Ray cluster?", fix="stoker up --engine ray --address HOST:PORT, that of its head")
    if find_spec("ray") is None:
        raise Unavailable(
            "the engine ray needs Ray, which is not installed",
            fix="pip install 'stoker[ray]', in the version that the cluster has",
        )
    made: ElasticEngine = load("engines", "ray")(
        config.home,
        config["address"],
        runtime=runtime,
        server_url="",
        token=tokens.of_attempt,
        lease_seconds=config["lease_seconds"],
        pools=pools,
    )
    return made


def make_files(config: Config) -> Files:
    """The site's files, by its settings."""
    choice = config["unmapped_buckets"]
    keep_here = choice == "here" or (choice == "auto" and not has_cloud_credentials(os.environ))
    return Files(config.home / "buckets", buckets=config["buckets"], keep_buckets_here=keep_here)


def _find_uv() -> str:
    """uv, which came with Stoker."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def _pid_in(path: Path) -> int:
    """The process that a file like server.json names; 0 for none."""
    try:
        return int(json.loads(path.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
