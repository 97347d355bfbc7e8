"""A warm Ray cluster with a Stoker server on it, beside Ray's own ways to run a program there: Ray Jobs, bare actors and tasks.

Whatever runs writes the time of its first line into a file, so that nobody's way of telling is measured. All nodes are on this
machine, each on a loopback address of its own, with as many CPUs as they are told to have.
"""

from __future__ import annotations

import itertools
import logging
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stoker.engines.ray.spares import order_worker
from tests.ray_cluster import RayCluster

from . import ray_child
from .server import PROJECT, Server, wait_until

NOT_INSTALLED = "not installed: pip install stoker[bench]"
CONNECT_SECONDS = 60.0
_FIRST_LINE = "import sys, time; now = time.time(); open(sys.argv[1], 'w').write(f'{now!r}\\n')"
_LOOK_SECONDS = 0.01


def has_ray() -> bool:
    """Whether Ray is in this interpreter, which the server of Stoker shares."""
    return find_spec("ray") is not None


class RaySite:
    """`with RaySite(2, cpus=4) as site:` so many nodes of so many CPUs each. Needs Ray in this interpreter."""

    server: Server

    def __init__(self, nodes: int, *, cpus: int, jobs: bool = True) -> None:
        """`jobs`: with the dashboard that Ray Jobs needs."""
        self._nodes, self._cpus, self._jobs = nodes, cpus, jobs
        self._numbers = itertools.count(1)

    def __enter__(self) -> RaySite:
        self._stack = ExitStack()
        try:
            self._enter()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _enter(self) -> None:
        import ray

        self.folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.cluster = self._stack.enter_context(RayCluster(dashboard=self._jobs))
        for number in range(1, self._nodes + 1):
            self.cluster.add(number, cpus=self._cpus)
        ray.init(address=self.cluster.address, namespace=PROJECT, log_to_driver=False, logging_level=logging.ERROR)
        self._stack.callback(ray.shutdown)
        self._rows = [row for row in ray.nodes() if row["Resources"].get("CPU")]
        ray.cloudpickle.register_pickle_by_value(ray_child)  # so that a worker imports nothing of ours
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(ray_child.Child)
        settings = {"engine": "ray", "address": self.cluster.address}
        self.server = self._stack.enter_context(Server(settings=settings))
        wait_until(lambda: len(self.server.client.nodes()) == self._nodes, "the nodes to be seen", CONNECT_SECONDS)
        self._client = _jobs_client(self.cluster.jobs_url) if self._jobs else None

    def name(self) -> str:
        """A new one."""
        return f"ray_{next(self._numbers)}"

    def new_folder(self) -> Path:
        """An empty one."""
        folder = self.folder / self.name()
        folder.mkdir()
        return folder

    def first_line(self, start: Callable[[list[str]], Callable[[], None]]) -> float:
        """Seconds from the call of `start` with a program to the program's first line; what `start` returns tidies up."""
        file = self.folder / self.name()
        begin = time.time()
        tidy = start([sys.executable, "-c", _FIRST_LINE, str(file)])
        seconds = written_time(file) - begin
        tidy()
        return seconds

    def by_stoker(self, command: Sequence[str]) -> Callable[[], None]:
        """Submit to Stoker, by its client."""
        self.server.run(self.name(), *command)
        return self.server.wait_for_rest

    def by_ray_jobs(self, command: Sequence[str]) -> Callable[[], None]:
        """Submit to Ray Jobs, by its client: without the command line, which takes seconds more."""
        assert self._client is not None
        client, job = self._client, self._client.submit_job(entrypoint=shlex.join(command))
        return lambda: wait_until(lambda: client.get_job_status(job).is_terminal(), f"{job} of Ray to end", 60.0, 0.2)

    def by_actor(self, command: Sequence[str]) -> Callable[[], None]:
        """Have a detached actor start it: the least that a replica on Ray can be."""
        import ray

        handle = self._actor.options(name=self.name(), lifetime="detached").remote(list(command))
        return lambda: ray.kill(handle)

    def by_ready_actor(self, command: Sequence[str]) -> Callable[[], None]:
        """As `by_actor`, where `make_ready` has had a worker process started: less is not possible on Ray."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        where = NodeAffinitySchedulingStrategy(self._rows[0]["NodeID"], soft=False)
        handle = self._actor.options(name=self.name(), lifetime="detached", scheduling_strategy=where).remote(
            list(command)
        )
        return lambda: ray.kill(handle)

    def start_in(self, group: Any, place: int, command: list[str]) -> Any:
        """A detached actor in a place of a placement group."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        where = PlacementGroupSchedulingStrategy(group, place)
        return self._actor.options(name=self.name(), lifetime="detached", scheduling_strategy=where).remote(command)

    def make_ready(self) -> None:
        """Have a worker process wait for our next actor, as the engine does for its own."""
        order_worker(self._rows[0])

    def wait_for_room(self) -> None:
        """Until all the cluster's CPUs are free again."""
        import ray

        every = self._nodes * self._cpus
        wait_until(lambda: ray.available_resources().get("CPU", 0) >= every, "Ray to have free CPUs", 60.0, 0.1)


def last_of(folder: Path, count: int, seconds: float = 300.0) -> float:
    """The latest of so many times, each in a file of its own. Raises TimeoutError."""
    wait_until(lambda: len(list(folder.glob("*.time"))) >= count, f"{count} first lines in {folder}", seconds, 0.02)
    return max(float(file.read_text()) for file in folder.glob("*.time"))


def written_time(file: Path, seconds: float = 120.0) -> float:
    """The time that a program writes into a file, once it has. Raises TimeoutError."""

    def is_there() -> bool:
        return file.exists() and file.read_text().endswith("\n")

    wait_until(is_there, f"a first line in {file}", seconds, _LOOK_SECONDS)
    return float(file.read_text())


def _jobs_client(url: str) -> Any:
    """Ray's client, once its head answers."""
    from ray.job_submission import JobSubmissionClient

    found: list[Any] = []

    def connects() -> bool:
        try:
            client = JobSubmissionClient(url)
            client.list_jobs()
            found.append(client)
        except Exception:  # it raises RuntimeError, ConnectionError and others while the head starts
            return False
        return True

    wait_until(connects, "Ray's jobs to be taken", CONNECT_SECONDS, 0.5)
    return found[0]
