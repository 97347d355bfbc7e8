"""Machines that are processes: a provider for Ray's autoscaler that starts each as a Ray node of this machine.

It lets pools be tried without a cloud, as `make demo-cluster` and the tests do: orders, machines that come one by one, idle ones
that go, and orders that fail. In a cluster file:

    provider: {type: external, module: stoker.engines.ray.processes.Processes, folder: /tmp/here, gcs_address: "127.0.0.2:6399"}

A node type whose node_config has `refuse: TEXT` is out of stock, in these words. Which processes there are lies in the folder, so
that they are found again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from ray.autoscaler.node_launch_exception import NodeLaunchException
from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import NODE_KIND_HEAD, TAG_RAY_NODE_KIND, TAG_RAY_NODE_STATUS, TAG_RAY_USER_NODE_TYPE

HEAD = "head"
"""The head's id, which it is told by RAY_CLOUD_INSTANCE_ID."""

OBJECT_STORE_BYTES = 80_000_000
_FIRST_HOST = 10
_START_SECONDS = 60.0
_END_SECONDS = 5.0
_UP = b"Ray runtime started"


class Processes(NodeProvider):  # type: ignore[misc]  # Ray has no types
    """Implements Ray's NodeProvider."""

    def __init__(self, provider_config: Mapping[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        self._folder = Path(provider_config["folder"])
        self._gcs_address = provider_config["gcs_address"]
        self._lock = threading.RLock()
        self._started: dict[str, subprocess.Popen[bytes]] = {}  # by us, so that we reap them
        self._folder.mkdir(parents=True, exist_ok=True)
        self._starters = ThreadPoolExecutor(
            2 * (os.cpu_count() or 1)
        )  # Ray gives each half a minute, so not all at once

    @staticmethod
    def bootstrap_config(cluster_config: dict[str, Any]) -> dict[str, Any]:
        """Nothing to prepare."""
        return cluster_config

    def non_terminated_nodes(self, tag_filters: Mapping[str, str]) -> list[str]:
        """The head, and those whose process is there."""
        with self._lock:
            found = [HEAD, *(path.stem for path in sorted(self._folder.glob("*.json")) if self._is_there(path.stem))]
            return [name for name in found if tag_filters.items() <= self.node_tags(name).items()]

    def is_running(self, node_id: str) -> bool:
        """Whether it is there."""
        return node_id == HEAD or self._is_there(node_id)

    def is_terminated(self, node_id: str) -> bool:
        """Whether it has gone."""
        return not self.is_running(node_id)

    def node_tags(self, node_id: str) -> dict[str, str]:
        """What the autoscaler has noted of it."""
        if node_id == HEAD:
            return {
                TAG_RAY_NODE_KIND: NODE_KIND_HEAD,
                TAG_RAY_USER_NODE_TYPE: "ray.head.default",
                TAG_RAY_NODE_STATUS: "up-to-date",
            }
        tags: dict[str, str] = self._read(node_id).get("tags", {})
        return tags

    def set_node_tags(self, node_id: str, tags: Mapping[str, str]) -> None:
        """Note something of it."""
        with self._lock:
            known = self._read(node_id)
            if known:
                self._write(node_id, {**known, "tags": {**known["tags"], **tags}})

    def internal_ip(self, node_id: str) -> str:
        """The address of the node."""
        host = self._gcs_address.rpartition(":")[0] if node_id == HEAD else self._read(node_id).get("address", "")
        return str(host)

    def external_ip(self, node_id: str) -> str:
        """The address of the node: there is no outside."""
        return self.internal_ip(node_id)

    def create_node(self, node_config: Mapping[str, Any], tags: Mapping[str, str], count: int) -> None:
        """Start so many without resources: never asked for, since every node type names its own."""
        self.create_node_with_resources_and_labels(node_config, tags, count, {}, {})

    def create_node_with_resources_and_labels(
        self,
        node_config: Mapping[str, Any],
        tags: Mapping[str, str],
        count: int,
        resources: Mapping[str, float],
        labels: Mapping[str, str],
    ) -> None:
        """Start so many. Raises NodeLaunchException for a node type that is out of stock."""
        if "refuse" in node_config:
            raise NodeLaunchException("out of stock", str(node_config["refuse"]), None)
        with self._lock:
            for _ in range(count):
                self._start(dict(tags), dict(resources), dict(labels))

    def terminate_node(self, node_id: str) -> None:
        """End it, and all that it has started."""
        with self._lock:
            if node_id != HEAD:
                self._end(node_id)

    def terminate_nodes(self, node_ids: Iterable[str]) -> None:
        """End these."""
        for node_id in node_ids:
            self.terminate_node(node_id)

    def _start(self, tags: dict[str, str], resources: dict[str, Any], labels: dict[str, str]) -> None:
        number = self._next_number()
        node_id, address = f"machine-{number}", f"127.0.{number // 200}.{_FIRST_HOST + number % 200}"
        folder = self._folder / str(number)
        folder.mkdir()
        self._write(node_id, {"address": address, "tags": tags})
        custom = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
        custom.pop("object_store_memory", None)
        words = [
            f"--address={self._gcs_address}",
            f"--node-ip-address={address}",
            f"--num-cpus={resources.get('CPU', 0):g}",
            f"--num-gpus={resources.get('GPU', 0):g}",
            f"--memory={int(resources.get('memory', 1 << 30))}",
            f"--resources={json.dumps(custom)}",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
            f"--temp-dir={folder}",
            "--disable-usage-stats",
            "--block",
        ]
        if labels:
            words.append("--labels=" + ",".join(f"{key}={value}" for key, value in labels.items()))
        environment = {
            **{key: value for key, value in os.environ.items() if key != "RAY_OVERRIDE_NODE_ID_FOR_TESTING"},
            "RAY_CLOUD_INSTANCE_ID": node_id,
            "RAY_NODE_TYPE_NAME": tags[TAG_RAY_USER_NODE_TYPE],
        }
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words]
        self._starters.submit(self._run, node_id, command, environment, folder / "start.log")

    def _run(self, node_id: str, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        """Start one, unless it has been ended before its turn, and wait until it is up."""
        with self._lock, open(log, "wb") as output:
            known = self._read(node_id)
            if not known:
                return
            process = self._started[node_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
            self._write(node_id, {**known, "pid": process.pid})
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and process.poll() is None and _UP not in log.read_bytes():
            time.sleep(0.1)

    def _end(self, node_id: str) -> None:
        pid = self._read(node_id).get("pid")
        if pid is not None:
            end_tree(pid)
        process = self._started.pop(node_id, None)
        if process is not None:
            process.wait()
        (self._folder / f"{node_id}.json").unlink(missing_ok=True)

    def _is_there(self, node_id: str) -> bool:
        process = self._started.get(node_id)
        if process is not None:
            return process.poll() is None
        known = self._read(node_id)
        return bool(known) and ("pid" not in known or psutil.pid_exists(known["pid"]))  # without one its turn will come

    def _next_number(self) -> int:
        return max((int(path.name) for path in self._folder.iterdir() if path.name.isdecimal()), default=0) + 1

    def _read(self, node_id: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._folder / f"{node_id}.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def _write(self, node_id: str, known: Mapping[str, Any]) -> None:
        temporary = self._folder / f"{node_id}.tmp"
        temporary.write_text(json.dumps(known))
        temporary.replace(self._folder / f"{node_id}.json")


def end_tree(pid: int, *, grace_seconds: float = _END_SECONDS) -> None:
    """End a process that leads its own session, and all below it: gently, and then for certain."""
    with suppress(psutil.Error):
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        if grace_seconds:
            tree[0].terminate()
            psutil.wait_procs(tree, timeout=grace_seconds)
        for process in tree:
            with suppress(psutil.Error):
                process.kill()


def cluster_file(
    folder: Path, gcs_address: str, types: Mapping[str, Mapping[str, Any]], idle_seconds: float
) -> dict[str, Any]:
    """A cluster file for Ray whose machines are processes. `types`: node types, as Ray's cluster files have them."""
    lists = (
        "cluster_synced_files initialization_commands setup_commands head_setup_commands worker_setup_commands"
        " head_start_ray_commands worker_start_ray_commands"
    )
    return {
        "cluster_name": "here",
        "max_workers": sum(int(one["max_workers"]) for one in types.values()),
        "upscaling_speed": 100.0,
        "idle_timeout_minutes": idle_seconds / 60,
        "provider": {
            "type": "external",
            "module": f"{__name__}.Processes",
            "folder": str(folder),
            "gcs_address": gcs_address,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            **types,
        },
        "head_node_type": "ray.head.default",
        **{key: [] for key in lists.split()},
    }
