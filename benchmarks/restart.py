"""From the `kill -9` of one of two PyTorch processes to the next step of both: as a Stoker job, and under torchrun.

All run the same program, which saves by itself every five steps until then. A job of two replicas is one of two machines; so
torchrun is measured with an agent for each process, and besides with one for both, as on one machine. What is not back within
the limit is not clean, and counts as the limit: that its true figure is larger changes no median. The least that a restart can
take is the start of both processes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from .measure import Row
from .server import PROJECT, Server

RUNS = 7
_LIMIT_SECONDS = 30.0
_START_SECONDS = 60.0

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
    if not rank and not begin and step % 5 == 4:
        torch.save({"model": model.state_dict(), "step": step + 1}, folder + "/part")
        os.replace(folder + "/part", folder + "/saved")
    if rank == 1 and step == 20 and not os.path.exists(folder + "/killed"):
        open(folder + "/killed", "w").write(repr(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
together.destroy_process_group()
"""


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    found: dict[str, list[float]] = {name: [] for name in ("stoker", "two", "one", "bare")}
    with Server() as server, tempfile.TemporaryDirectory(prefix="stoker-bench-") as base:
        program = Path(base, "program.py")
        program.write_text(PROGRAM)
        for run in range(runs):
            found["stoker"].append(_seconds(_by_stoker(server, run)))
            for name, machines in (("two", 2), ("one", 1)):
                folder = Path(base, f"{name}{run}")
                _by_torchrun(program, folder, machines)
                found[name].append(_seconds(folder))
            found["bare"].append(_bare(program, Path(base, f"one{run}")))
    return [
        _row("from kill -9 of one of two to the next step", found, "stoker", "two", "torchrun"),
        Row(
            what=" sooner than torchrun's, an agent each",
            samples=[theirs - ours for ours, theirs in zip(found["stoker"], found["two"], strict=True)],
            budget=2.0,
            more_is_better=True,
        ),
        _row(" the same, torchrun --max-restarts 3, an agent each", found, "two"),
        _row(" the same, torchrun --standalone, one agent for both", found, "one"),
        _row(" both started without anything, to that step", found, "bare", "stoker", "a restart"),
    ]


def _row(what: str, found: dict[str, list[float]], name: str, other: str = "", peer: str = "") -> Row:
    """Of all runs, with how many are clean."""
    samples = found[name]
    clean = sum(seconds < _LIMIT_SECONDS for seconds in samples)
    ratio = median(samples) / median(found[other]) if other else None
    return Row(what=f"{what} ({clean} of {len(samples)} clean)", samples=samples, peer=peer, ratio=ratio)


def _by_stoker(server: Server, run: int) -> Path:
    """The folder in which the program writes: its sandbox has no other."""
    name = f"restart_{run}"
    command = [sys.executable, "-c", PROGRAM]
    asked = {"name": name, "command": command, "workers": 1, "job_dir": f"gs://restart/{name}"}
    job = server.client.run(PROJECT, asked)
    server.wait_for_rest(_LIMIT_SECONDS + 60)
    return Path(job["job_dir_path"])


def _by_torchrun(program: Path, folder: Path, machines: int) -> None:
    """Until the program has ended or its limit is over."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--max-restarts=3", f"--nproc-per-node={2 // machines}"]
    if machines == 1:
        agents = [[*launcher, "--standalone"]]
    else:
        meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{_free_port()}", "--local-addr=127.0.0.1"]
        agents = [
            [*launcher, f"--nnodes={machines}", *meeting, f"--rdzv-conf=is_host={int(not agent)}"]
            for agent in range(machines)
        ]
    processes = [_start([*agent, str(program), str(folder)], {}) for agent in agents]
    until = time.time() + _START_SECONDS
    while time.time() < until and any(process.poll() is None for process in processes):
        time.sleep(0.05)
        if (folder / "killed").exists():
            until = (folder / "killed").stat().st_mtime + _LIMIT_SECONDS
    for process in processes:
        process.terminate()  # it takes its workers along
    for process in processes:
        process.wait()


def _bare(program: Path, folder: Path) -> float:
    """Seconds from the start of both processes to their first step, from what was saved."""
    for again in folder.glob("again-*"):
        again.unlink()
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    began = time.time()
    command = [sys.executable, str(program), str(folder)]
    for process in [_start(command, {**meeting, "RANK": str(rank)}) for rank in range(2)]:
        process.wait()
    again = [folder / f"again-{rank}" for rank in range(2)]
    return (
        max(float(path.read_text()) for path in again) - began
        if all(path.exists() for path in again)
        else _LIMIT_SECONDS
    )


def _start(command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _seconds(folder: Path) -> float:
    """From the kill to the later of the two first steps; the limit, if it never came to that."""
    again = [folder / f"again-{rank}" for rank in range(2)]
    if not all(path.exists() for path in [*again, folder / "killed"]):
        return _LIMIT_SECONDS
    took = max(float(path.read_text()) for path in again) - float((folder / "killed").read_text())
    return min(took, _LIMIT_SECONDS)
