"""Training without a server, as `gcloud ai-platform local train`: the module on this machine, alone or as a small cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import BadSpec, Violation

FIRST_PORT = 27182
GRACE_SECONDS = 5.0

Process = subprocess.Popen[bytes]


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
    running: list[Process] = []
    try:
        with _ended_by_signals():
            for role, index in tasks:
                config = _tf_config(module, command[3:], role, index, addresses)
                running.append(subprocess.Popen(command, cwd=folder, env=config, start_new_session=True))
            code = running[0].wait()
            return code if code >= 0 else 128 - code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        _end(running)


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
    if not package.is_dir():
        raise BadSpec([Violation("--package-path", f"{package} is not a folder")])
    if not (package / "__init__.py").exists():
        raise BadSpec(
            [Violation("--package-path", f"{package} is not a package: it has no __init__.py")],
            fix=f"touch {package / '__init__.py'}",
        )
    if module.split(".")[0] != package.name:
        raise BadSpec([Violation("--module-name", f"{module} is not in the package {package.name}")])
    return package.parent


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within, SIGTERM and a closed terminal end us as Ctrl-C does: the processes have sessions of their own, and would stay."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(processes: Sequence[Process]) -> None:
    """End the processes with their groups: all asked first, and after the grace killed, with whatever they left behind."""
    for process in processes:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
