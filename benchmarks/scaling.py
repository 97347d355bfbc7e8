"""What a second process brings: the same PyTorch program on one and on two, as a Stoker job and launched bare.

The program measures itself, after a warm-up, so that neither start counts. What is compared is the scaling: examples a second of
two processes by those of one. All four take turns within a run.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from .measure import Row
from .server import PROJECT, Server

RUNS = 7
_LIMIT_SECONDS = 120.0

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
steps(20)
began = time.perf_counter()
steps(150)
took = time.perf_counter() - began
if rank == 0:
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/part", "w") as file:
        file.write(repr(150 * 64 * count / took))
    os.replace(folder + "/part", folder + "/rate")
if count > 1:
    together.destroy_process_group()
"""


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    ours: list[float] = []
    bare: list[float] = []
    with Server() as server, tempfile.TemporaryDirectory(prefix="stoker-bench-") as base:
        program = Path(base, "program.py")
        program.write_text(PROGRAM)
        for run in range(runs):
            rates = {}
            for count in (1, 2):
                rates["bare", count] = _bare(program, Path(base, f"{run}-{count}"), count)
                rates["stoker", count] = _by_stoker(server, run, count)
            bare.append(rates["bare", 2] / rates["bare", 1])
            ours.append(rates["stoker", 2] / rates["stoker", 1])
    return [
        Row(
            what="what a Stoker job loses of what a second process brings (examples a second, in a run)",
            samples=[100 * (1 - one / other) for one, other in zip(ours, bare, strict=True)],
            unit="%",
            budget=1.0,
            peer="bare",
            ratio=median(ours) / median(bare),
            note=f"two are {median(ours):.3f}x one as jobs, {median(bare):.3f}x launched bare",
        )
    ]


def _by_stoker(server: Server, run: int, count: int) -> float:
    name = f"scaling_{run}_{count}"
    command = [sys.executable, "-c", PROGRAM]
    asked = {"name": name, "command": command, "workers": count - 1, "job_dir": f"gs://scaling/{name}"}
    job = server.client.run(PROJECT, asked)
    server.wait_for_rest(_LIMIT_SECONDS, pause=2.0)  # who asks often takes from what is measured
    return float(Path(job["job_dir_path"], "rate").read_text())


def _bare(program: Path, folder: Path, count: int) -> float:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    processes = []
    for rank in range(count):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environment = {**os.environ, **variables, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen([sys.executable, str(program), str(folder)], env=environment))
    try:
        codes = [process.wait(_LIMIT_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(codes):
        raise RuntimeError(f"the bare program ended with {codes}")
    return float((folder / "rate").read_text())
