"""Where this process stands among those that train, by the variables that every replica has (runtime/wiring.py)."""

from __future__ import annotations

import json
import os
import zlib
from typing import Mapping, NamedTuple


class Cluster(NamedTuple):
    """Who trains. Parameter servers and evaluators do not, and have no rank."""

    role: str
    rank: int  # 0: the chief; -1: it has none
    processes: int
    devices: int  # accelerators of each process; 0: it trains on its processors
    is_pretended: bool  # a rehearsal: its accelerators are not there
    seed: int  # the same for all of a job, also when it is started again
    servers: int = 0  # parameter servers

    @property
    def replicas(self) -> int:
        """How many copies of the model are to be trained in step."""
        return self.processes * max(1, self.devices)

    @property
    def is_chief(self) -> bool:
        """Whether its files are those that count."""
        return self.rank == 0


def cluster_of(variables: Mapping[str, str]) -> Cluster:
    """The cluster that these variables tell of; alone where they tell of none."""
    devices = _number(variables, "STOKER_GPUS_PER_NODE", 0)
    if devices:  # of the machine, which has a process for each, or for some of them
        devices = max(1, devices // max(1, _number(variables, "LOCAL_WORLD_SIZE", 1)))
    return Cluster(
        role=variables.get("STOKER_ROLE", "chief"),
        rank=_number(variables, "RANK", 0) if "STOKER_ROLE" not in variables or "RANK" in variables else -1,
        processes=_number(variables, "WORLD_SIZE", 1),
        devices=devices,
        is_pretended=bool(devices) and "STOKER_VIRTUAL_NODE" in variables,
        servers=_servers(variables),
        seed=zlib.crc32((variables.get("STOKER_SEED") or variables.get("STOKER_JOB_ID", "")).encode()),
    )


def at_start(name: str) -> str:
    """A variable as this process was given it: many scripts set one themselves."""
    try:
        with open("/proc/self/environ", "rb") as file:
            told = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line)
        return told.get(name.encode(), b"").decode()
    except (OSError, ValueError):
        return os.environ.get(name, "")


def _servers(variables: Mapping[str, str]) -> int:
    try:
        return len(json.loads(variables.get("TF_CONFIG") or "{}")["cluster"]["ps"])
    except (KeyError, TypeError, ValueError):
        return 0


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "")
    return int(text) if text.isdigit() else default
