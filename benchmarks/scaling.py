"""What a second process brings: the same PyTorch program on one and on two, as Stoker jobs and launched bare.

All are there at the same time and take short turns, again and again: a machine whose speed changes does so for all of them.
What is compared is the scaling: examples a second of two processes by those of one.

Two launches of the same program differ by more than what is looked for, by where their memory happens to lie. So the jobs are
compared with themselves: in every other turn the server and its supervisors stand still (SIGSTOP), and the difference is what
they cost. Beside it, over the launches: jobs against bare processes, and bare processes against others, which is the noise.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from statistics import median

from .measure import Row
from .server import PROJECT, Server, wait_until

RUNS = 5
_ROUNDS = 60
_TURN_STEPS = 10
_START_SECONDS = 120.0

PROGRAM = """
import os, sys, time
import torch, torch.distributed as together
folder = os.environ.get("STOKER_JOB_DIR") or sys.argv[1]
rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
torch.set_num_threads(1)
torch.manual_seed(7)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.Linear(16 * 24 * 24, 10),
)
if count > 1:
    together.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
def steps(number):
    for _ in range(number):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
def turn():
    number = torch.tensor([int(asked.readline()) if rank == 0 else 0])
    if count > 1:
        together.broadcast(number, 0)
    return int(number)
steps(20)
if rank == 0:
    os.makedirs(folder, exist_ok=True)
    os.mkfifo(folder + "/told")
    os.mkfifo(folder + "/asked")
    asked, told = open(folder + "/asked"), open(folder + "/told", "w", buffering=1)
while number := turn():
    steps(2)
    began = time.perf_counter()
    steps(number)
    if rank == 0:
        print(repr(number * 64 * count / (time.perf_counter() - began)), file=told)
if count > 1:
    together.destroy_process_group()
"""


class Trainer:
    """A program that waits for its turn, of one process or of two."""

    def __init__(self, folder: Path) -> None:
        """Wait until it has warmed up."""
        wait_until((folder / "asked").exists, f"{folder} to train", _START_SECONDS)
        self._asked, self._told = (folder / "asked").open("w", buffering=1), (folder / "told").open()

    def rate(self) -> float:
        """Let it have a turn. Returns its examples a second."""
        print(_TURN_STEPS, file=self._asked)
        return float(self._told.readline())

    def end(self) -> None:
        """Let it go home."""
        print(0, file=self._asked)
        for file in (self._asked, self._told):
            file.close()


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    found: list[dict[str, float]] = []
    for _ in range(runs):
        with Server() as server, tempfile.TemporaryDirectory(prefix="stoker-bench-") as base:
            found.append(_run(server, Path(base)))
    return [
        _row("what a second process brings less while Stoker runs beside it", found, "jobs", "alone", budget=1.0),
        _row(" the same of other processes: jobs, and launched bare", found, "alone", "bare"),
        _row(" the same, both launched bare: the noise", found, "other", "bare"),
    ]


def _row(what: str, found: list[dict[str, float]], one: str, other: str, budget: float | None = None) -> Row:
    """How much less it is in the one case than in the other."""
    return Row(
        what=what,
        samples=[100 * (1 - scaled[one] / scaled[other]) for scaled in found],
        unit="%",
        budget=budget,
        peer="bare" if other == "bare" else "jobs alone",
        ratio=median(scaled[one] for scaled in found) / median(scaled[other] for scaled in found),
    )


def _run(server: Server, base: Path) -> dict[str, float]:
    """What two are of one, the median of all rounds: of bare processes, of others, of jobs, and of those while Stoker stands."""
    program = base / "program.py"
    program.write_text(PROGRAM)
    sizes = (1, 2)
    folders = {name: [base / f"{name}{count}" for count in sizes] for name in ("bare", "other")}
    processes = [
        process
        for made in folders.values()
        for count, folder in zip(sizes, made, strict=True)
        for process in _launch(program, folder, count)
    ]
    try:
        trainers = {name: [Trainer(folder) for folder in made] for name, made in folders.items()}
        trainers["jobs"] = [Trainer(_submit(server, count)) for count in sizes]
        turns = {**trainers, "alone": trainers["jobs"]}
        scaled: dict[str, list[float]] = {name: [] for name in turns}
        for round_ in range(_ROUNDS):
            for name in list(turns)[:: 1 if round_ % 2 else -1]:
                with nullcontext() if name == "jobs" else _standing(server):
                    one, two = (trainer.rate() for trainer in turns[name])
                scaled[name].append(two / one)
        for trainer in chain.from_iterable(trainers.values()):
            trainer.end()
        server.wait_for_rest()
        for process in processes:
            process.wait(_START_SECONDS)
    finally:
        for process in processes:
            process.kill()
    return {name: median(each) for name, each in scaled.items()}


@contextmanager
def _standing(server: Server) -> Iterator[None]:
    """The server and the supervisors of its jobs stand still."""
    pids = [server.found.pid, *(int(path.read_text()) for path in server.home.rglob("pid"))]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _submit(server: Server, count: int) -> Path:
    """Start a job. Returns the folder in which it writes."""
    asked = {
        "name": f"scaling_{count}",
        "command": [sys.executable, "-c", PROGRAM],
        "workers": count - 1,
        "vcpus": 0.5,
        "job_dir": f"gs://scaling/{count}",
    }
    return Path(server.client.run(PROJECT, asked)["job_dir_path"])


def _launch(program: Path, folder: Path, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start the processes without Stoker."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    for rank in range(count):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environment = {**os.environ, **variables, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        yield subprocess.Popen([sys.executable, str(program), str(folder)], env=environment)
