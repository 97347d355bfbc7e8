"""A real Ray cluster for the tests: a head without work, and nodes of declared size, each on a loopback address of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from stoker.engines.ray.processes import HEAD as HEAD_ID
from stoker.engines.ray.processes import cluster_file, end_tree

HEAD = "127.0.0.2"
"""Ray replaces 127.0.0.1 by an address that others can reach; these it leaves alone."""

_MEMORY = 80_000_000
_START_SECONDS = 90.0


class RayCluster:
    """`with RayCluster() as cluster:` a head; `add` nodes. Afterwards nothing of it is left.

    With `types`, node types as in Ray's cluster files, it has an autoscaler, whose machines are processes. With `dashboard`,
    its head takes Ray's own jobs at `jobs_url`.
    """

    jobs_url = ""

    def __init__(
        self,
        types: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        idle_seconds: float = 5.0,
        dashboard: bool = False,
    ) -> None:
        self._types, self._idle_seconds, self._dashboard = types, idle_seconds, dashboard

    def __enter__(self) -> RayCluster:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-ray-", dir="/tmp"))  # its sockets' paths are long
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = _free_port()
        self.address = f"{HEAD}:{self.port}"
        words = ["--head", f"--port={self.port}", "--num-cpus=0", "--num-gpus=0"]
        if self._dashboard:
            port = _free_port()
            self.jobs_url = f"http://127.0.0.1:{port}"
            words += ["--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}"]
        else:
            words.append("--include-dashboard=false")
        if self._types is not None:
            file = self.folder / "cluster.json"  # YAML, too
            made = cluster_file(self.folder / "machines", self.address, self._types, self._idle_seconds)
            file.write_text(json.dumps(made))
            words.append(f"--autoscaling-config={file}")
        try:
            self._start(HEAD, *words)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for address in list(self._processes):
            self.kill(address)
        for path in self.folder.glob("machines/*.json"):
            pid = json.loads(path.read_text()).get("pid")
            if pid is not None:
                end_tree(pid, grace_seconds=0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, number: int, *, cpus: int = 4, gpus: int = 0, labels: Mapping[str, str] | None = None) -> str:
        """A node of this size. Returns its address."""
        address = f"127.0.0.{2 + number}"
        told = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        words = [f"--address={self.address}", f"--num-cpus={cpus}", f"--num-gpus={gpus}", f"--memory={8 << 30}"]
        self._start(address, *words, *([f"--labels={told}"] if told else []))
        return address

    def idle_workers(self) -> int:
        """How many worker processes of its nodes wait for work."""
        found = 0
        for process in self._processes.values():
            with suppress(psutil.Error):
                below = psutil.Process(process.pid).children(recursive=True)
                found += sum(child.cmdline()[:1] == ["ray::IDLE"] for child in below)
        return found

    def kill(self, address: str) -> None:
        """As when a machine goes: everything of a node at once."""
        process = self._processes.pop(address)
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, address: str, *words: str) -> None:
        folder = self.folder / address.rpartition(".")[2]
        folder.mkdir()
        log = folder / "start.log"
        with open(log, "wb") as output:
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words, f"--node-ip-address={address}"]
            more = [f"--object-store-memory={_MEMORY}", f"--temp-dir={folder}", "--disable-usage-stats", "--block"]
            ports = [f"--dashboard-agent-listen-port={_free_port()}"]
            self._processes[address] = subprocess.Popen(
                [*command, *more, *ports], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment(),
                start_new_session=True,
            )  # fmt: skip
        from tests.conftest import wait_until

        process = self._processes[address]
        wait_until(
            lambda: b"Ray runtime started" in log.read_bytes() or process.poll() is not None, seconds=_START_SECONDS
        )
        assert process.poll() is None, log.read_text()


def environment() -> dict[str, str]:
    """Of Ray's processes: what a lost node is noticed by, made quick; and nothing told to anybody."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("STOKER_")},
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "1000",
        "RAY_health_check_failure_threshold": "5",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
        "RAY_NODE_TYPE_NAME": "ray.head.default",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
