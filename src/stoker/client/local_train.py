"""Training without a server, as `gcloud ai-platform local train`: the module on this machine, alone or as a small cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, Violation

FIRST_PORT = 27182


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """How many there are of each role, on ports from `start_port` on."""

    workers: int = 2
    parameter_servers: int = 2
    evaluators: int = 0
    start_port: int = FIRST_PORT

    def addresses(self) -> dict[str, list[str]]:
        """The `cluster` of TF_CONFIG: evaluators are outside it."""
        counts = {"chief": 1, "ps": self.parameter_servers, "worker": self.workers}
        port = self.start_port
        cluster: dict[str, list[str]] = {}
        for role, count in counts.items():
            if count:
                cluster[role] = [f"localhost:{port + n}" for n in range(count)]
                port += count
        return cluster


def local_train(
    package: Path | None, module: str, args: Sequence[str], job_dir: str, cluster: LocalCluster | None
) -> int:
    """Run `python -m MODULE ARGS` in the parent of the package. Returns the chief's exit code; the others end with it."""
    folder = _package_parent(package, module)
    command = [sys.executable, "-m", module, *args, *(["--job-dir", job_dir] if job_dir else [])]
    tasks = [("", 0)] if cluster is None else _tasks(cluster)
    addresses = cluster.addresses() if cluster else {}
    running: list[subprocess.Popen[bytes]] = []
    try:
        for role, index in tasks:
            config = _tf_config(module, command[3:], role, index, addresses)
            running.append(subprocess.Popen(command, cwd=folder, env=config, start_new_session=True))
        return running[0].wait()
    except KeyboardInterrupt:
        return 130
    finally:
        for process in running:
            _end(process)


def _tasks(cluster: LocalCluster) -> list[tuple[str, int]]:
    counts = {"chief": 1, "ps": cluster.parameter_servers, "worker": cluster.workers, "evaluator": cluster.evaluators}
    return [(role, index) for role, count in counts.items() for index in range(count)]


def _tf_config(
    module: str, args: Sequence[str], role: str, index: int, cluster: Mapping[str, list[str]]
) -> dict[str, str]:
    task: dict[str, object] = {"type": role, "index": index} if role else {}
    spec = {
        "job": {"job_name": module, "args": list(args)},
        "task": task,
        "cluster": cluster,
        "environment": "cloud",
    }
    return {**os.environ, "TF_CONFIG": json.dumps(spec)}


def _package_parent(package: Path | None, module: str) -> Path:
    if package is None:
        return Path.cwd()
    package = package.resolve()
    if not (package / "__init__.py").exists():
        raise BadSpec([Violation("--package-path", f"{package} is not a package: it has no __init__.py")])
    if module.split(".")[0] != package.name:
        raise BadSpec([Violation("--module-name", f"{module} is not in the package {package.name}")])
    return package.parent


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group: asked first, killed if it does not listen."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
