"""From the `kill -9` of one of two PyTorch processes to the next step of both: as a Stoker job, and under torchrun.

Both run the same program, which saves by itself every five steps. What does not get there within the limit is not clean.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from .measure import Row
from .server import PROJECT, Server

RUNS = 7
_LIMIT_SECONDS = 60.0

PROGRAM = """
import os, signal, sys, time
import torch, torch.distributed as together
folder, rank = os.environ.get("STOKER_JOB_DIR") or sys.argv[1], int(os.environ["RANK"])
os.makedirs(folder, exist_ok=True)
torch.set_num_threads(1)
together.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.001)
begin = 0
if os.path.exists(folder + "/saved"):
    saved = torch.load(folder + "/saved")
    model.load_state_dict(saved["model"])
    begin = saved["step"]
for step in range(begin, 40):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if begin and step == begin:
        open(f"{folder}/again-{rank}", "w").write(repr(time.time()))
    if not rank and step % 5 == 4:
        torch.save({"model": model.state_dict(), "step": step + 1}, folder + "/part")
        os.replace(folder + "/part", folder + "/saved")
    if rank == 1 and step == 20 and not os.path.exists(folder + "/killed"):
        open(folder + "/killed", "w").write(repr(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
together.destroy_process_group()
"""


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    found: dict[str, list[float]] = {"stoker": [], "torchrun": []}
    with Server() as server, tempfile.TemporaryDirectory(prefix="stoker-bench-") as base:
        program = Path(base, "program.py")
        program.write_text(PROGRAM)
        for run in range(runs):
            for name in found:
                if name == "stoker":
                    folder = _by_stoker(server, run)
                else:
                    folder = Path(base, f"{name}{run}")
                    _by_torchrun(program, folder)
                took = _seconds(folder)
                if took is not None:
                    found[name].append(took)
    ours, theirs = found["stoker"], found["torchrun"]
    ratio = median(theirs) / median(ours) if ours and theirs else None
    return [
        Row(
            what=f"from kill -9 of one of two to the next step ({len(ours)} of {runs} clean)",
            samples=ours,
            peer="torchrun",
            ratio=ratio,
            note="" if ours else "never clean",
        ),
        Row(
            what=f"the same, torchrun --max-restarts 3 ({len(theirs)} of {runs} clean)",
            samples=theirs,
            note="" if theirs else "never clean",
        ),
    ]


def _by_stoker(server: Server, run: int) -> Path:
    """The folder in which the program writes: its sandbox has no other."""
    name = f"restart_{run}"
    command = [sys.executable, "-c", PROGRAM]
    asked = {"name": name, "command": command, "workers": 1, "job_dir": f"gs://restart/{name}"}
    job = server.client.run(PROJECT, asked)
    server.wait_for_rest(_LIMIT_SECONDS + 60)
    return Path(job["job_dir_path"])


def _by_torchrun(program: Path, folder: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*launcher, str(program), str(folder)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            process.wait(_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # it takes its workers along
    time.sleep(0.5)


def _seconds(folder: Path) -> float | None:
    """From the kill to the later of the two first steps. None: it never came to that."""
    again = [folder / f"again-{rank}" for rank in range(2)]
    if not all(path.exists() for path in [*again, folder / "killed"]):
        return None
    return max(float(path.read_text()) for path in again) - float((folder / "killed").read_text())
