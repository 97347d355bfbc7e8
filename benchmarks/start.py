"""From submitting to the first line of user code, on a warm server. The program prints what time it is then.

Each round runs all the ways once, one after the other, so that a busy moment of the machine meets them alike. Bare is what no
scheduler can beat: the same program as a child process.
"""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from statistics import median

from .measure import Row, ratio
from .ray_jobs import RayJobs, find_ray
from .server import PROJECT, Server, stoker_command

RUNS = 15
COMMAND = [sys.executable, "-c", "import time; print(time.time(), flush=True)"]
_RAY_CLI_RUNS = 3  # each takes about ten seconds
_numbers = itertools.count(1)


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part."""
    with ExitStack() as stack:
        server = stack.enter_context(Server())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ways: dict[str, Callable[[], float]] = {
            "bare": bare,
            "client": lambda: by_client(server),
            "stoker run": lambda: by_command([*stoker_command(), "run", "--"], server.environment, folder),
        }
        python = find_ray()
        if python:
            ray = stack.enter_context(RayJobs(python))
            ways["Ray client"] = lambda: ray.submit(shlex.join(COMMAND))
            ways["ray job submit"] = lambda: by_command(ray.command, ray.environment, folder)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for run in range(-1, runs):
            for name, way in ways.items():
                if name == "ray job submit" and run >= _RAY_CLI_RUNS:
                    continue
                seconds = way()
                if run >= 0:  # the first round warms everybody up
                    found[name].append(seconds)
                server.wait_for_rest()
    yield from _rows(found)


def bare() -> float:
    """Seconds from starting a child process to its first line."""
    begin = time.time()
    printed = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout
    return float(printed) - begin


def by_client(server: Server) -> float:
    """Seconds from the request of a Python client, in this process, to the first line."""
    name = f"start_{next(_numbers)}"
    begin = time.time()
    server.run(name, *COMMAND)
    events = list(server.client.stream(PROJECT, name))
    printed = [float(event["text"]) for event in events if event["kind"] == "log" and event["stream"] == "out"]
    if not printed:
        raise RuntimeError(f"{name} printed nothing: {events[-1]}")
    return printed[0] - begin


def by_command(submit: list[str], environment: Mapping[str, str], folder: str) -> float:
    """Seconds from starting a command line to the program's first line being shown by it."""
    begin = time.time()
    with subprocess.Popen(
        [*submit, *COMMAND],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        seen = 0.0
        for line in child.stdout:
            if not seen and line.strip().replace(".", "", 1).isdigit():
                seen = time.time()
    if not seen:
        raise RuntimeError(f"{' '.join(submit)} … showed no line and ended with {child.returncode}")
    return seen - begin


def _rows(found: Mapping[str, list[float]]) -> Iterator[Row]:
    alone = median(found["bare"])
    yield Row(what="submit → first line: bare python -c", unit="ms", samples=[1000 * s for s in found["bare"]])
    for name, what, peer, whose in (
        ("client", "  over bare: Stoker, Python client", "bare", "bare"),
        ("stoker run", "  over bare: Stoker, `stoker run` (whole command)", "bare", "bare"),
        ("Ray client", "  over bare: Ray, JobSubmissionClient", "client", "Stoker's"),
        ("ray job submit", "  over bare: Ray, `ray job submit` (whole command)", "stoker run", "Stoker's"),
    ):
        samples = found.get(name, [])
        budget, moonshot = (300, 60) if name == "client" else (None, None)
        yield Row(
            what=what,
            unit="ms",
            samples=[1000 * (seconds - alone) for seconds in samples],
            budget=budget,
            moonshot=moonshot,
            ratio=ratio(samples, found[peer]),
            peer=whose,
            note="not installed: pip install stoker[bench]",
        )
