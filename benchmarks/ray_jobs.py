"""Ray as a peer: a warm one-node Ray of our own, in its own interpreter, that runs jobs when told to."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import psutil

_PEER = Path(__file__).with_name("ray_peer.py")


def find_ray() -> str:
    """The interpreter that has Ray: $BENCH_RAY_PYTHON, or this one. Empty: there is none."""
    named = os.environ.get("BENCH_RAY_PYTHON", "")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("ray") else ""


class RayJobs:
    """`with RayJobs(python) as ray:` a head with a dashboard, which `ray job submit` needs, and all CPUs."""

    address: str

    def __init__(self, python: str) -> None:
        self._python = python
        self._folder = tempfile.mkdtemp(prefix="ray-")  # short: Ray makes sockets in it, whose paths may have 107 bytes
        self._peer = subprocess.Popen(
            [python, str(_PEER), self._folder],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def __enter__(self) -> RayJobs:
        try:
            self.address = str(self._answer()["address"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End what we started, by process id: `ray stop` would end every Ray of this machine."""
        peer = psutil.Process(self._peer.pid)
        started = [*peer.children(recursive=True), peer]
        for process in started:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        self._peer.wait()
        psutil.wait_procs(started, timeout=10)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """No telemetry; and nothing of our own interpreter."""
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV") and k[:4] != "RAY_"}
        return {**kept, "RAY_USAGE_STATS_ENABLED": "0", "RAY_COLOR_PREFIX": "0", "PYTHONUNBUFFERED": "1"}

    @property
    def command(self) -> list[str]:
        """`ray job submit` with this cluster, to be followed by a program."""
        return [self._python, "-m", "ray.scripts.scripts", "job", "submit", f"--address={self.address}", "--"]

    def submit(self, entrypoint: str) -> float:
        """Submit by the client and wait for the end. Returns the seconds to the moment that the program printed."""
        _pipe(self._peer.stdin).write(json.dumps({"entrypoint": entrypoint}) + "\n")
        _pipe(self._peer.stdin).flush()
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        for line in _pipe(self._peer.stdout):
            if line.startswith('{"stoker_bench": '):  # among whatever Ray prints
                answer: dict[str, Any] = json.loads(line)["stoker_bench"]
                return answer
        raise RuntimeError(f"Ray did not answer (interpreter {self._python})")


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
