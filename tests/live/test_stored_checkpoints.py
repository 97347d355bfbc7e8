"""Checkpoints in a bucket: by gcsfs, a program's own library, from a server that speaks as Cloud Storage does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.runtime.zipapp import HOOKS, build
from tests.conftest import Server
from tests.live.test_resume import PROGRAM as KERAS

pytestmark = pytest.mark.live
FLAGS = ("--no-auth", "--hold")  # gcsfs sends no token to an emulator

TORCH = """
import os, sys, torch
from stoker import checkpoint
torch.manual_seed(3)
if "WORLD_SIZE" in os.environ:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(8, 1)
if "WORLD_SIZE" in os.environ:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
data = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
state = checkpoint.State(model=model, optimizer=optimizer)
for epoch in state.epochs(3):
    for one, two in state.batches(loader):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(one), two).backward()
        optimizer.step()
        if state.step + 1 == int(sys.argv[1]) and not os.path.exists("mark"):
            state.save()
        if state.step == int(sys.argv[1]) and not os.path.exists("mark"):
            open("mark", "w").close()
            os.kill(os.getpid(), int(sys.argv[2]))
print("weights", sum(float(p.detach().abs().sum()) for p in model.parameters()), "steps", state.step)
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    hooks = f"{build(str(tmp_path / 'cache'))}/{HOOKS}"

    def run_program(name: str, program: str, *words: object, every: str = "3600") -> subprocess.CompletedProcess[str]:
        told = {
            "STOKER_CHECKPOINTS": every,
            "STOKER_JOB_DIR": str(tmp_path / name),
            "STOKER_CHECKPOINT_DIR": f"gs://{name}-bucket/run/checkpoints",
            "STORAGE_EMULATOR_HOST": server.found.url,
            "TMPDIR": str(tmp_path / name),
            "PYTHONPATH": hooks,
        }
        (tmp_path / name).mkdir(exist_ok=True)
        command = [sys.executable, "-c", program, *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path / name, env={**os.environ, **told}, capture_output=True, text=True, timeout=240
        )

    return run_program


def objects(server: Server, bucket: str) -> set[str]:
    root = server.home / "buckets/gs" / bucket
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.proves("A PyTorch loop with a `DataLoader`", "Goes on after a kill", "also from a bucket")
def test_a_loop_goes_on_from_a_bucket(run: Run, server: Server, tmp_path: Path) -> None:
    whole = run("whole", TORCH, 0, 0)
    assert whole.returncode == 0, whole.stderr
    killed = run("killed", TORCH, 21, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run("killed", TORCH, 21, signal.SIGKILL)
    assert done.returncode == 0 and done.stdout == whole.stdout != "", done.stderr
    found = {name.split("/")[3] for name in objects(server, "killed-bucket")}
    assert found == {f"step-{step:09}" for step in (21, 48)}
    assert not list((tmp_path / "whole").glob("stoker-checkpoints-*")), "nothing stays here"


@pytest.mark.campaign
def test_fit_goes_on_from_a_bucket(run: Run) -> None:
    whole = run("whole", KERAS, 0, 0, every="0.001")
    assert run("killed", KERAS, 21, signal.SIGKILL, every="0.001").returncode == -signal.SIGKILL
    done = run("killed", KERAS, 21, signal.SIGKILL, every="0.001")
    assert done.returncode == 0 and done.stdout == whole.stdout, done.stderr
    assert re.search(r"stoker: goes on at step \d+: epoch 2, \d+ examples into it", done.stderr)


@pytest.mark.campaign
def test_a_bucket_that_cannot_be_asked_is_not_an_empty_one(run: Run, server: Server) -> None:
    """A program that began anew would write over what it has."""
    server.cli("down")
    try:
        done = run("gone", TORCH, 0, 0)
    finally:
        server.restart()
    assert done.returncode == 143 and "steps" not in done.stdout, "it is tried again"
    assert "stoker: gs://gone-bucket/run/checkpoints/state cannot be used: " in done.stderr
    assert "Traceback" not in done.stderr
