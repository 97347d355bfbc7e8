"""Ray's driver, in a process beside the server: `python -m stoker.engines.ray.driver ADDRESS NAMESPACE`.

In: lines of JSON, {"id", "do", …}; each is answered with {"id", "answer"} or {"id", "error"}. Out, besides:

    {"event": "nodes", "rows": […]}                               what Ray's nodes are now
    {"event": "no_machine", "pool", "why"}                        one that was ordered does not come
    {"event": "found", "replicas": {replica: whether it is there}} upon `watch`
    {"event": "ended", "replica", "status"}                       its last status
    {"event": "lost", "replica", "why"}                           its actor is gone, and its node is there: nothing of it runs

What is on a node that is gone, nobody here knows, and nothing is said of it. When the server goes, so does this process; the
actors stay, and are found again by their names. When Ray goes, Ray ends this process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import ray
from ray._private.state import state as cluster_state
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from stoker.core.ids import attempt_of_replica
from stoker.engines.ray import replica as replica_module
from stoker.engines.ray.entrance import first_line, said_by, why_not
from stoker.engines.ray.inventory import name_of
from stoker.engines.ray.machines import Machines
from stoker.engines.ray.spares import Spares

NODES_SECONDS = 1.0
ANSWER_SECONDS = 10.0
ASKED_SECONDS = 30.0
NODE_SECONDS = 10.0
"""So long after an actor Ray may take to notice that its node is gone, too."""

_LOOK_SECONDS = 0.1
_AGAIN_SECONDS = 1.0


class Driver:
    """Does what it is told, and tells what it sees."""

    def __init__(self, namespace: str, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._namespace = namespace
        self._tell = tell
        self._nodes: dict[str, Mapping[str, Any]] = {}  # by name, those that are alive
        self._gcs_address: str = ray.get_runtime_context().gcs_address
        self._machines = Machines(self._gcs_address, tell)
        self._spares = Spares()
        self._handles: dict[str, Any] = {}
        self._ends: dict[Any, str] = {}  # the call that returns when it ends → replica
        self._unanswered: dict[str, float] = {}  # replica that could not be asked → when it is asked again
        self._lost: dict[str, tuple[float, str]] = {}  # replica whose actor is gone → when that is told, and why
        self._lock = threading.Lock()
        ray.cloudpickle.register_pickle_by_value(replica_module)
        self._actor = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0, max_concurrency=8)(
            replica_module.Replica
        )

    def look(self) -> None:
        """Tell the nodes whenever they have changed, for ever."""
        told: list[Any] = []
        while True:
            rows = _nodes()
            self._nodes = {name_of(row): row for row in rows if row["Alive"]}
            if rows != told:
                told = rows
                self._tell({"event": "nodes", "rows": rows})
            self._spares.look(self._nodes)
            self._machines.look()
            time.sleep(NODES_SECONDS)

    def wait(self) -> None:
        """Tell every end, for ever."""
        while True:
            now = time.monotonic()
            for name in [name for name, due in list(self._unanswered.items()) if due <= now]:
                del self._unanswered[name]
                self._ask(name)
            for name in [name for name, (due, _) in list(self._lost.items()) if due <= now]:
                self._tell({"event": "lost", "replica": name, "why": self._lost.pop(name)[1]})
            with self._lock:
                calls = list(self._ends)
            ended = ray.wait(calls, num_returns=len(calls), timeout=_LOOK_SECONDS)[0] if calls else []
            for call in ended:
                self._tell_end(call)
            if not calls:
                time.sleep(_LOOK_SECONDS)

    def start(self, attempt: str, replicas: Mapping[str, Mapping[str, Any]], runtime: str) -> None:
        """Make the gang's places and an actor in each. What is there already is left alone."""
        with open(runtime, "rb") as file:
            program = ray.put(file.read())  # once for all of the gang
        missing = sorted({words["node"] for words in replicas.values()} - self._nodes.keys())
        if missing:
            raise LookupError(f"no Ray node {', '.join(missing)} any more")
        group = self._group(attempt) or placement_group(
            [{k: v for k, v in words["resources"].items() if v} or {"CPU": 0.001} for words in replicas.values()],
            strategy="PACK",
            name=attempt,
            lifetime="detached",
            bundle_label_selector=[{"ray.io/node-id": self._nodes[w["node"]]["NodeID"]} for w in replicas.values()],
        )
        for place, (name, words) in enumerate(replicas.items()):
            handle = self._actor.options(
                name=f"{attempt}/{name}",
                namespace=self._namespace,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=0,
                max_concurrency=8,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, place),
            ).remote({**words["request"], "lease": self._lease(words)}, program)
            self._spares.take(self._nodes[words["node"]]["NodeID"])
            self._watch(f"{attempt}/{name}", handle)

    def watch(self, replicas: list[str]) -> None:
        """Look for actors of an earlier driver, and wait for their ends from now on."""
        found = {}
        for name in replicas:
            try:
                self._watch(name, ray.get_actor(name, namespace=self._namespace))
                found[name] = True
            except ValueError:
                found[name] = False
        self._tell({"event": "found", "replicas": found})

    def stop(self, attempt: str, force: bool) -> None:
        """Tell them to end. A gang that has no places yet gets none."""
        group = self._group(attempt)
        if group is not None and placement_group_table(group)["state"] in ("PENDING", "RESCHEDULING"):
            remove_placement_group(group)
        for handle in self._handles_of(attempt).values():
            handle.stop.remote(force)

    def ask(self, attempt: str, request: dict[str, Any]) -> None:
        """Hand them a request."""
        for handle in self._handles_of(attempt).values():
            handle.ask.remote(request)

    def lines(self, replica: str, after: int) -> Any:
        """The next records of a replica's log after a number; none of one that is gone."""
        if replica not in self._handles:
            return []
        try:
            return ray.get(self._handles[replica].lines.remote(after), timeout=ANSWER_SECONDS)
        except ActorDiedError:
            return []

    def keep(self, attempts: list[str], url: str) -> None:
        """Of what an earlier server has started, let these attempts find us; the rest ends."""
        names = self._names()
        for name in names:
            if attempt_of_replica(name) in attempts:
                handle = self._actor_of(name)
                if handle is not None:
                    handle.be_found_at.remote(url)
        ours = {attempt_of_replica(name) for name in self._handles}  # since started by us, or asked for: no strays
        for attempt in sorted({attempt_of_replica(name) for name in names} - {*attempts} - ours):
            self.forget(attempt)

    def want(self, machines: dict[str, int]) -> None:
        """Have so many machines of each pool."""
        self._machines.want(machines)

    def leave(self) -> None:
        """The server is gone, and nobody is told anything any more."""
        self._tell = lambda said: None
        with suppress(Exception):  # or Ray is gone, too
            self._machines.leave()

    def forget(self, attempt: str) -> None:
        """Give back its places, with what is in them."""
        handles = self._handles_of(attempt)
        calls = [handle.tidy.remote() for handle in handles.values()]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=ANSWER_SECONDS)
        for name, handle in handles.items():
            self._handles.pop(name, None)
            ray.kill(handle)
        group = self._group(attempt)
        if group is not None:
            remove_placement_group(group)

    def _handles_of(self, attempt: str) -> dict[str, Any]:
        """The actors of an attempt, also those that an earlier driver made."""
        known = {n: handle for n, handle in self._handles.items() if attempt_of_replica(n) == attempt}
        if known:
            return known
        found = {n: self._actor_of(n) for n in self._names() if attempt_of_replica(n) == attempt}
        return {name: handle for name, handle in found.items() if handle is not None}

    def _actor_of(self, name: str) -> Any:
        try:
            return ray.get_actor(name, namespace=self._namespace)
        except ValueError:
            return None

    def _names(self) -> list[str]:
        """The replicas that are there, whoever started them."""
        named = ray.util.list_named_actors(all_namespaces=True)
        return sorted(row["name"] for row in named if row["namespace"] == self._namespace)

    def _lease(self, words: Mapping[str, Any]) -> dict[str, Any] | None:
        """Its witness is Ray: as long as it reaches Ray's head and its node's own part of Ray, Ray calls the node alive."""
        seconds, node = words["request"]["lease_seconds"], self._nodes[words["node"]]
        witness = f"{self._gcs_address}+{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
        return {"seconds": seconds, "witnesses": [witness]} if seconds else None

    def _group(self, attempt: str) -> Any:
        try:
            return get_placement_group(attempt)
        except ValueError:
            return None

    def _watch(self, name: str, handle: Any) -> None:
        if name not in self._handles:
            self._handles[name] = handle
            self._ask(name)

    def _ask(self, name: str) -> None:
        """Ask one that is still ours for its end; for a while, since a call keeps one of its threads, also when we are gone."""
        handle = self._handles.get(name)
        if handle is not None:
            call = handle.wait.remote(ASKED_SECONDS)
            with self._lock:
                self._ends[call] = name

    def _tell_end(self, call: Any) -> None:
        with self._lock:
            name = self._ends.pop(call)
        try:
            status = ray.get(call)
            if status is None:
                self._ask(name)
            else:
                self._tell({"event": "ended", "replica": name, "status": status})
        except ActorUnavailableError:  # it may be there, and may be gone: it is asked again
            self._unanswered[name] = time.monotonic() + _AGAIN_SECONDS
        except ActorDiedError as error:  # perhaps with its node, of which Ray tells later
            self._lost[name] = (time.monotonic() + NODE_SECONDS, first_line(error))
        except RayError as error:  # it cannot tell: what it has started ends with it
            handle = self._handles.get(name)
            if handle is not None:
                ray.kill(handle)
            self._tell({"event": "lost", "replica": name, "why": first_line(error)})


_NODE_KEYS = ("NodeID", "Alive", "NodeManagerAddress", "NodeManagerPort", "Resources", "Labels")


def _nodes() -> list[dict[str, Any]]:
    """What inventory.nodes_of wants to know."""
    drained: Mapping[str, int] = cluster_state.get_draining_nodes()
    rows = [{key: row[key] for key in _NODE_KEYS if key in row} for row in ray.nodes()]
    return [row | ({"DrainedByMs": drained[row["NodeID"]]} if row["NodeID"] in drained else {}) for row in rows]


def main(address: str, namespace: str) -> None:
    """Until the server closes our input."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, does not print among the answers
    lock = threading.Lock()

    def tell(line: Mapping[str, Any]) -> None:
        with lock, suppress(BrokenPipeError):  # the server is gone; our input tells of it
            out.write(json.dumps(line) + "\n")
            out.flush()

    why = why_not(address) or _join(address, namespace)
    if why:
        tell({"event": "refused", "why": why})
        return
    driver = Driver(namespace, tell)
    tell({"event": "connected", "address": ray.get_runtime_context().gcs_address})
    for target in (driver.look, driver.wait):
        threading.Thread(target=_or_end, args=(target,), daemon=True).start()
    in_order, beside = ThreadPoolExecutor(1), ThreadPoolExecutor(4)
    for line in sys.stdin:
        asked = json.loads(line)
        pool = beside if asked["do"] == "lines" else in_order  # whoever is slow to read keeps nobody from being stopped
        pool.submit(_answer, driver, asked, tell)
    driver.leave()
    os._exit(0)


def _join(address: str, namespace: str) -> str:
    """Join the cluster. Returns why that did not do; empty: it did."""
    try:
        ray.init(address=address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        return said_by(address, error)
    return ""


def _answer(driver: Driver, asked: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> None:
    words = {key: value for key, value in asked.items() if key not in ("id", "do")}
    try:
        tell({"id": asked["id"], "answer": getattr(driver, asked["do"])(**words)})
    except Exception as error:
        tell({"id": asked["id"], "error": first_line(error)})


def _or_end(target: Callable[[], None]) -> None:
    """What fails here fails since Ray is gone: this process ends, and the server starts another."""
    try:
        target()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
