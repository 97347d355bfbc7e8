"""A Ray cluster as an engine: a detached actor for every replica, found again by its name after a restart of the server.

Stoker decides who runs where; Ray starts it there, and tells when a node is gone. A gang is one placement group, each of whose
bundles is bound to the node that was chosen. Which devices a replica sees, Stoker says as well: others who use the cluster's GPUs
beside it should use other nodes.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker.core.copies import replace
from stoker.core.errors import EngineError, StokerError, Unavailable
from stoker.core.ids import attempt_of_replica, replica_name
from stoker.core.job import Attempt, Replica
from stoker.core.launch import Launch, LaunchReplica
from stoker.core.node import Node, NodeState
from stoker.core.site import Pool
from stoker.core.states import ReplicaState

from ..base import Refusal, Request, Seen, words_of
from ..status import BAD_STATUS, seen_of
from .bridge import Bridge
from .hosts.head import Head
from .inventory import nodes_of
from .mark import Mark
from .node_settings import DEFAULTS, NodeSettings

_MOST_LEFT = 10_000
_CLOSE_SECONDS = 10.0
_WANT_SECONDS = 20.0
_log = logging.getLogger("stoker.engine")


class RayEngine:
    """Implements Engine on a Ray cluster."""

    def __init__(
        self,
        home: Path,
        address: str,
        *,
        runtime: Path,
        server_url: str,
        token: Callable[[str], str],
        lease_seconds: float = 30.0,
        pools: Mapping[str, Pool] | None = None,
        settings: NodeSettings = DEFAULTS,
        head: Head | None = None,
    ) -> None:
        """`address`: of Ray's head, host:port. `token`: attempt id → the token its replicas may use. `runtime`: the zipapp.

        `lease_seconds`: how long a replica runs on that reaches neither the server nor Ray's head. `pools`: the site's.
        `head`: where that is ours to keep up.
        """
        self._settings = settings
        self._mark = Mark(home)
        self._fences = home / "runs"
        # The same wherever the home lies, and no other home's.
        self._home_mark = hashlib.sha256(token("home").encode()).hexdigest()[:12]
        self._runtime, self._server_url, self._token, self._lease_seconds = runtime, server_url, token, lease_seconds
        self._lock = threading.Lock()
        self._address = address
        self._nodes: tuple[Node, ...] = ()
        self._live: frozenset[str] | None = None  # the attempts that are not to be ended when Ray is first reached
        self._known: dict[str, bool] = {}  # replica id → whether it has an actor, as was asked since Ray was reached
        self._asked: set[str] = set()  # replicas that are being looked for
        self._ends: dict[str, Mapping[str, Any]] = {}  # replica id → its last status, or {"lost": why}
        self._told_to_stop: dict[str, bool] = {}  # attempt → whether by force, since Ray was reached
        self._leaving: set[str] = set()  # attempts whose places Ray has not given back yet
        self._refused: dict[str, str] = {}  # attempt of which nothing is started → why
        self._left: OrderedDict[str, None] = OrderedDict()  # those that were forgotten last: no news of them counts
        self._pools = pools or {}
        self._wanted: Mapping[str, int] | None = None  # machines of each pool, as Ray was told; None: it was not told
        self._wanted_at = 0.0  # when it was told
        self._knows_nodes = False  # since Ray was reached
        self._refusals: list[Refusal] = []
        self._ring: Callable[[], None] = lambda: None
        self._bridge = Bridge(address, f"stoker-{self._home_mark}", heard=self._heard, head=head)

    def be_found_at(self, server_url: str) -> None:
        """Let replicas find the server there, also those of an earlier one."""
        self._server_url = server_url

    def nodes(self) -> Sequence[Node]:
        """Ray's nodes that are alive; DOWN while Ray cannot be reached, for nobody knows."""
        with self._lock:
            return self._nodes

    def render(self, launch: Launch) -> Request:
        """What each actor is told, but for the token and the server's address."""
        return Request(
            attempt=launch.attempt,
            replicas={
                replica_name(r.role, r.index): {
                    "node": r.node,
                    "resources": _resources(r),
                    "request": {
                        **words_of(launch, r),
                        "env": {**r.env, "STOKER_REPLICA_ID": f"{launch.attempt}/{replica_name(r.role, r.index)}"},
                        "isolate": self._settings.isolate(launch),
                        "folders": self._settings.folders(launch),
                        "cgroup": [],
                        "visible_devices": ",".join(r.devices),
                        "lease_seconds": launch.lease_seconds,
                        "host": _host(r.node),
                        "loopback_interface": "lo" if is_loopback(_host(r.node)) else "",
                        "home": self._home_mark,
                    },
                }
                for r in launch.replicas
            },
        )

    def start(self, request: Request) -> None:
        """Have Ray make the gang's places, with an actor in each.

        Raises Unavailable while Ray cannot be reached, EngineError if the server listens where the nodes cannot reach it.
        """
        no_way_back = self._no_way_back(words["request"]["host"] for words in request.replicas.values())
        if no_way_back:
            with self._lock:
                self._refused[request.attempt] = no_way_back
            raise EngineError(no_way_back)
        names = [f"{request.attempt}/{name}" for name in request.replicas]
        if self._fence(request.attempt).exists():
            return
        with self._lock:
            if any(name in self._ends or self._known.get(name) for name in names):
                return
            if self._live is not None:
                self._live |= {request.attempt}  # no stray, should Ray be told only later whom to keep
            for name in names:  # whatever comes of it, what was known before is old: it is looked for after this
                self._known.pop(name, None)
                self._asked.discard(name)
        secret = {"token": self._token(request.attempt), "server_url": self._server_url, "mark": self._mark.words()}
        told = self._settings.with_user
        replicas = {name: {**w, "request": told({**w["request"], **secret})} for name, w in request.replicas.items()}
        try:
            self._bridge.ask("start", attempt=request.attempt, replicas=replicas, runtime=str(self._runtime))
        except Unavailable:
            raise
        except StokerError as error:
            raise Unavailable(f"Ray does not start {request.attempt}: {error.message}") from error
        with self._lock:
            self._known.update(dict.fromkeys(names, True))

    def stop(self, attempt: str, *, force: bool) -> None:
        """Raise the fence, which is in the home, and have its actors end their programs, once gently and once by force."""
        fence = self._fence(attempt)
        fence.parent.mkdir(parents=True, exist_ok=True)
        fence.touch()
        with self._lock:
            told = self._told_to_stop.get(attempt)
        if told is None or (force and not told):
            try:
                self._bridge.tell("stop", attempt=attempt, force=force)
            except Unavailable:
                return  # it is told again
            with self._lock:
                self._told_to_stop[attempt] = force

    def ask(self, attempt: str, request: Mapping[str, Any]) -> None:
        """By their actors. Raises Unavailable."""
        self._bridge.tell("ask", attempt=attempt, request=dict(request))

    def poll(self, attempts: Mapping[str, Attempt]) -> Mapping[str, Sequence[Seen]]:
        """What Ray has told so far. Of what is on a node that is gone, and of all while Ray is away, nothing."""
        found: dict[str, list[Seen]] = {}
        unknown: list[str] = []
        with self._lock:
            up = {node.name for node in self._nodes if node.state is not NodeState.DOWN}
            for attempt in attempts.values():
                nodes = {(p.role, p.index): p.node for p in attempt.placements}
                for replica in attempt.replicas:
                    name = f"{attempt.id}/{replica_name(replica.role, replica.index)}"
                    if name not in self._known and name not in self._ends:
                        unknown.append(name)
                    seen = self._seen(attempt.id, name, replica, is_up=nodes[replica.role, replica.index] in up)
                    if seen is not None:
                        found.setdefault(attempt.id, []).append(seen)
            unknown = [name for name in unknown if name not in self._asked]
            self._asked.update(unknown)
        if unknown:
            try:
                self._bridge.tell("watch", replicas=unknown)
            except Unavailable:
                with self._lock:
                    self._asked.difference_update(unknown)
        return found

    def attempts(self) -> Collection[str]:
        """What runs there is known when Ray is reached, and then by what was started here."""
        return ()

    def put_away(self, attempts: Collection[str], folder: Path) -> set[str]:
        """Nothing of theirs is kept here."""
        return set()

    def adopt(self, live: Collection[str], nodes: Sequence[Node] = (), *, unknown: Collection[str] = ()) -> None:
        """Take over what an earlier server left there, as soon as Ray is reached. Until then its nodes are DOWN.

        While the database has lost attempts, Ray is told of nobody whom to end.
        """
        with self._lock:
            self._live = None if unknown else frozenset(live)
            self._nodes = self._nodes or tuple(replace(node, state=NodeState.DOWN) for node in nodes)
        self._tell_what_is_due()

    def listen(self, ring: Callable[[], None]) -> None:
        """Call `ring` whenever Ray has told something new."""
        self._ring = ring

    def want(self, machines: Mapping[str, int]) -> None:
        """Tell Ray's autoscaler, if that is news, and now and then: others may have told it something else.

        Until Ray has told what is there, what was wanted before stands. What it was not told it is told when this is said again.
        """
        wanted = {pool: count for pool, count in machines.items() if count}
        now = time.monotonic()
        with self._lock:
            if not self._knows_nodes or (wanted == self._wanted and now < self._wanted_at + _WANT_SECONDS):
                return
            self._wanted, self._wanted_at = wanted, now
        try:
            self._bridge.tell("want", machines=wanted).add_done_callback(self._told_what_is_wanted)
        except Unavailable:
            with self._lock:
                self._wanted = None

    def refusals(self) -> Sequence[Refusal]:
        """What Ray's autoscaler could not get, in the words of the cloud."""
        with self._lock:
            told, self._refusals = self._refusals, []
        return told

    def problem(self) -> str:
        """Why the cluster cannot be used now."""
        with self._lock:
            hosts = [_host(node.name) for node in self._nodes if node.state is NodeState.UP]
        why = self._bridge.problem or self._no_way_back(hosts)
        return f"Ray at {self._address}: {why}" if why else ""

    def logs(self, attempt: str, replica: str, after: int) -> Iterator[Mapping[str, Any]]:
        """The lines that lie on the replica's node. Raises Unavailable while nobody can say whether there are any."""
        name = f"{attempt}/{replica}"
        with self._lock:
            is_known, is_lost = self._known.get(name), "lost" in self._ends.get(name, ())
        if is_known is None and not is_lost and not self._fence(attempt).exists():
            raise Unavailable(f"the lines of {name} are on a node, and Ray is not reached now")
        while is_known and not is_lost and (lines := self._bridge.ask("lines", replica=name, after=after)):
            yield from lines
            after = lines[-1]["n"]

    def forget(self, attempt: str) -> None:
        """Its places are given back; if Ray is away, when it is reached."""
        with self._lock:
            for names in (self._known, self._ends):
                for name in [name for name in names if attempt_of_replica(name) == attempt]:
                    del names[name]
            self._asked = {name for name in self._asked if attempt_of_replica(name) != attempt}
            self._told_to_stop.pop(attempt, None)
            self._refused.pop(attempt, None)
            self._leaving.add(attempt)
            self._left[attempt] = None
            if len(self._left) > _MOST_LEFT:
                self._left.popitem(last=False)
        self._tell_what_is_due()

    def close(self) -> None:
        """Leave the cluster, when what was forgotten has been given back. What runs there runs on."""
        until = time.monotonic() + _CLOSE_SECONDS
        while self._leaving and not self._bridge.problem and time.monotonic() < until:
            time.sleep(0.02)
        self._bridge.close()

    def _seen(self, attempt: str, name: str, replica: Replica, *, is_up: bool) -> Seen | None:
        end = self._ends.get(name)
        if end is not None and "lost" not in end:
            try:
                return seen_of(replica, end)
            except BAD_STATUS as error:  # the program wrote into it
                end = {"lost": f"its status cannot be read: {error}"}
        if not is_up:
            return None  # it may run on there
        if end is not None:
            return seen_of(replica, {"seen": ReplicaState.LOST, "message": end["lost"]})
        is_there = self._known.get(name)
        if is_there:
            return seen_of(replica, {"seen": max(replica.seen, ReplicaState.STARTING, key=list(ReplicaState).index)})
        if is_there is False:
            was_there = replica.seen is not ReplicaState.NOTHING
            if attempt in self._refused and not was_there:
                return seen_of(replica, {"seen": ReplicaState.FAILED, "message": self._refused[attempt]})
            lost = was_there or self._fence(attempt).exists()
            why = "its actor is gone" if was_there else "it was stopped before it started"
            return seen_of(replica, {"seen": ReplicaState.LOST, "message": why} if lost else {})
        return None

    def _heard(self, said: Mapping[str, Any]) -> None:
        """An event of the driver's. Called in one thread."""
        with self._lock:
            match said:
                case {"event": "gone"}:
                    self._known.clear()
                    self._asked.clear()
                    self._told_to_stop.clear()
                    self._wanted, self._knows_nodes = None, False
                    self._nodes = tuple(replace(node, state=NodeState.DOWN) for node in self._nodes)
                case {"event": "nodes", "rows": rows}:
                    self._nodes = nodes_of(rows, self._lease_seconds, self._pools)
                    self._knows_nodes = True
                case {"event": "no_machine", "pool": pool, "why": why}:
                    self._refusals.append(Refusal(pool=pool, why=why))
                case {"event": "found", "replicas": replicas}:
                    self._known.update(replicas)
                case {"event": "ended", "replica": name, "status": status} if (
                    attempt_of_replica(name) not in self._left
                ):
                    self._ends[name] = status
                case {"event": "lost", "replica": name, "why": why} if attempt_of_replica(name) not in self._left:
                    self._ends[name] = {"lost": why}
        if said["event"] == "connected":
            self._tell_what_is_due()
        self._ring()

    def _tell_what_is_due(self) -> None:
        """What Ray has not heard or not done yet: whom to keep, and whose places to give back."""
        with self._lock:
            live, leaving = self._live, sorted(self._leaving)
        try:
            if live is not None:
                self._bridge.tell("keep", attempts=sorted(live), url=self._server_url).add_done_callback(self._kept)
            for attempt in leaving:
                self._bridge.tell("forget", attempt=attempt).add_done_callback(partial(self._gone, attempt))
        except Unavailable:
            pass  # when it is reached

    def _kept(self, answer: Future[Any]) -> None:
        if answer.exception() is None:
            with self._lock:
                self._live = None  # what is started from now on is no stray

    def _told_what_is_wanted(self, answer: Future[Any]) -> None:
        error = answer.exception()
        if error is not None:
            _log.error("Ray was not told which machines are wanted: %s", error)
            with self._lock:
                self._wanted = None

    def _gone(self, attempt: str, answer: Future[Any]) -> None:
        if answer.exception() is None:
            with self._lock:
                self._leaving.discard(attempt)

    def _no_way_back(self, hosts: Iterable[str]) -> str:
        """Why replicas on these hosts could not reach the server; empty: they can."""
        host = urlsplit(self._server_url).hostname or ""
        far = sorted({found for found in hosts if not is_loopback(found)})
        if not far or not is_loopback(host):
            return ""
        return f"the server listens on {host}, where {far[0]} cannot reach it; start it with --host and an address that can be"

    def _fence(self, attempt: str) -> Path:
        return self._fences / attempt / "stop"


def _resources(replica: LaunchReplica) -> dict[str, float]:
    """What a replica takes of its node, as Ray counts it."""
    machine = replica.machine
    return {
        "CPU": machine.vcpus,
        "GPU": machine.accelerator_milli / 1000,
        "memory": int(machine.memory_gb * 2**30),
    }


def is_loopback(host: str) -> bool:
    """Whether an address is one of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(node: str) -> str:
    """The address in a node's name (inventory.name_of)."""
    return node.rpartition("-")[0]
