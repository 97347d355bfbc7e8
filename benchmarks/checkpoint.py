"""For how long training stands still for a checkpoint: by `stoker.checkpoint`, by `torch.save`, and by PyTorch's own formats.

All of them save the same model with the state of its optimizer (Adam) to the same disk, in turn, in one process. Of
what writes on in a thread, only the time is counted for which the loop stands; nothing is saved before that thread is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median

from .measure import Row

RUNS = 7
MILLIONS = 20

PROGRAM = """
import os, shutil, sys, time, warnings
import torch, torch.distributed.checkpoint as distributed
from torch.distributed.checkpoint.state_dict import get_state_dict
from stoker import checkpoint
warnings.simplefilter("ignore")
folder, runs, millions = os.environ["STOKER_CHECKPOINT_DIR"], int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(*[torch.nn.Linear(1000, 1000) for _ in range(millions)])
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 1000)).sum().backward()
optimizer.step()
state = checkpoint.State(model=model, optimizer=optimizer)
state.restore()
loops = state._loops

def ours(number):
    loops.step = number
    began = time.perf_counter()
    loops._save()
    stood = time.perf_counter() - began
    loops._keeping.saving.wait()
    assert not loops._keeping.saving.last.has_failed
    return stood

def plain(number):
    began = time.perf_counter()
    with open(f"{folder}/plain", "wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - began

def named():
    states = get_state_dict(model, optimizer)
    return {"model": states[0], "optimizer": states[1]}

def together(number):
    began = time.perf_counter()
    distributed.save(named(), checkpoint_id=f"{folder}/d{number}", no_dist=True)
    took = time.perf_counter() - began
    shutil.rmtree(f"{folder}/d{number}")
    return took

def beside(number):
    began = time.perf_counter()
    future = distributed.async_save(named(), checkpoint_id=f"{folder}/a{number}", no_dist=True)
    stood = time.perf_counter() - began
    future.result()
    shutil.rmtree(f"{folder}/a{number}")
    return stood

for number in range(1, runs + 2):
    for way in (ours, plain, together, beside):
        took = way(number)
        if number > 1:
            print(way.__name__, took)
"""


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        environment = {**os.environ, "STOKER_CHECKPOINT_DIR": folder, "STOKER_CHECKPOINTS": "3600"}
        command = [sys.executable, "-c", PROGRAM, str(runs), str(MILLIONS)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, list[float]] = {}
    for name, took in map(str.split, done.stdout.splitlines()):
        found.setdefault(name, []).append(1000 * float(took))
    size = f"{MILLIONS} million parameters and Adam"
    return [
        Row(
            what=f"training stands for a checkpoint ({size}), Stoker",
            unit="ms",
            samples=found["ours"],
            peer="async_save",
            ratio=median(found["beside"]) / median(found["ours"]),
        ),
        Row(what="the same, torch.save", unit="ms", samples=found["plain"]),
        Row(what="the same, torch.distributed.checkpoint.save", unit="ms", samples=found["together"]),
        Row(what="the same, its async_save", unit="ms", samples=found["beside"]),
    ]
