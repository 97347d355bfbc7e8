"""Whether a program trains as was asked for: seen from inside its steps, said in its log, and refused where it is not so."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict

from stoker.beat_files import SEEN, folder_of
from stoker.frameworks.entry.hooks import is_program
from stoker.frameworks.metrics.meter import meter
from stoker.frameworks.processes.cluster import Cluster, at_start, cluster_of
from stoker.frameworks.processes.learning_rates import say_no_rule

from .messages import Refused, say


def tell(cluster: Cluster, way: str, expected: int, replicas: int, batch: int, notes: str = "") -> None:
    """What the first step has shown: how many replicas train in step, and how many examples each had (0: not known).

    Raises Refused if it is not what was asked for.
    """
    seen = {"way": way, "replicas": replicas, "expected": expected, "batch_per_replica": batch}
    _write(seen)
    measures = meter()
    if measures is not None:
        measures.batch = batch * max(1, replicas // cluster.processes)
    if replicas != expected:
        raise Refused(
            f"asked for {expected} replicas in step, training uses {replicas} ({way})",
            "say --distribute none if that is meant",
        )
    if cluster.is_chief:
        examples = f", {batch} examples each, {batch * replicas} together" if batch else ""
        say(f"trains in step on {replicas} replicas ({way}){examples}{'; ' + notes if notes else ''}")


def tell_met(cluster: Cluster, way: str, expected: int, devices: int) -> None:
    """The processes of a program that shares its arrays itself have met: on how many devices.

    Raises Refused if they are not as many as was asked for.
    """
    _write({"way": way, "replicas": devices, "expected": expected, "batch_per_replica": 0})
    if devices != expected:
        raise Refused(
            f"asked for {expected} devices, and the processes have {devices} together ({way})",
            "say --distribute none if that is meant",
        )
    say_no_rule()
    if cluster.is_chief:
        say(
            f"{cluster.processes} processes have met ({way}): {devices} devices, among which the program shares its arrays"
        )


def tell_served(cluster: Cluster, *, is_served: bool, place: str, batch: int) -> None:
    """Where the weights of a model with parameter servers are. Raises Refused if they are not there."""
    workers = cluster.processes - 1
    way = f"ParameterServerStrategy, {cluster.servers} parameter server{'s' if cluster.servers > 1 else ''}"
    _write({"way": way, "replicas": 1, "expected": 1, "batch_per_replica": batch})
    if not is_served:
        raise Refused(
            f"asked for parameter servers, and the weights are at {place or 'no known place'}",
            "say --distribute none if that is meant",
        )
    say_no_rule()
    examples = f", {batch} examples a step" if batch else ""
    say(f"trains on {workers} worker{'s' if workers > 1 else ''}, each at its own pace ({way}){examples}")


def left(why: str) -> None:
    """The program is left as it is: nothing is known of its steps, and nothing is held against it."""
    say(f"left as it is: {why}")
    say_no_rule()
    _write({"way": "its own"})


def nothing_left() -> None:
    """It went on from a checkpoint of its end: there is no step to look at, and nothing to train."""
    _write({"way": "as its checkpoint left it"})


def tell_by_itself(used: int) -> None:
    """Of a program that nobody was told to distribute: on how many replicas its first step was. Said if it is alone of several.

    Nothing is said of processes that a program has started itself, each of which may do something else.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")  # which programs set for themselves
    cluster = cluster_of({**os.environ, **{name: at_start(name) for name in names}})
    asked = cluster.replicas
    is_known = not cluster.servers and "horovod" not in sys.modules and (used > 1 or is_program())
    if os.environ.get("STOKER_DISTRIBUTE", "none") != "none" or not cluster.is_chief:
        return
    say_no_rule()
    if not is_known or used >= asked:
        return
    what = "GPUs" if cluster.devices else "replicas"
    say(
        f"asked for {asked} {what}, and this program trains on {used}: with --distribute auto it may train on all of them"
    )


def _write(seen: Dict[str, Any]) -> None:
    measures = meter()
    if measures is not None:
        measures.note(seen)
    folder = folder_of(os.environ)
    if not folder or os.environ.get("STOKER_LOCAL_PROCESS"):
        return  # the first of a machine tells
    path = os.path.join(folder, SEEN)
    try:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(seen, file)
        os.replace(path + ".part", path)
    except OSError as error:
        say(f"what was seen of the training cannot be written: {error}")
