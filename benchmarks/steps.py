"""What it costs a step of training to be measured: the same small loop with the hooks of a job and without them, in turn.

The loops do as little as they can, so that what the hooks add stands out; it is shown as a part of a step of 5 ms. It is
time of the processor, all threads together: what others do on the machine disturbs that least.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from stoker.runtime.zipapp import HOOKS, build

from .measure import Row

RUNS = 7
STEP_SECONDS = 0.005

TORCH = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(3200, 16), torch.randn(3200, 1)), batch_size=32)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def epochs(count):
    for _ in range(count):
        for batch, wanted in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(batch), wanted).backward()
            optimizer.step()
epochs(3)
began = time.process_time()
epochs(30)
print((time.process_time() - began) / 3000)
"""
KERAS = """
import time, keras, numpy as np, tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
inputs, wanted = np.ones((9600, 16), "float32"), np.ones((9600, 1), "float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(inputs, wanted, batch_size=32, epochs=2, verbose=0)
began = time.process_time()
model.fit(inputs, wanted, batch_size=32, epochs=10, verbose=0)
print((time.process_time() - began) / 3000)
"""


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        hooks = f"{build(folder)}/{HOOKS}"
        return [
            _row("PyTorch", TORCH, runs, hooks, Path(folder)),
            _row("Keras on TensorFlow", KERAS, runs, hooks, Path(folder)),
        ]


def _row(framework: str, program: str, runs: int, hooks: str, folder: Path) -> Row:
    bare, measured = [], []
    for _ in range(runs):
        bare.append(_step_seconds(program, {}))
        told = folder / "beat"
        measured.append(_step_seconds(program, {"PYTHONPATH": hooks, "STOKER_BEAT_FILE": str(told)}))
    added = [100 * (ours - theirs) / STEP_SECONDS for ours, theirs in zip(measured, bare, strict=True)]
    what = f"measuring a step of {1000 * STEP_SECONDS:g} ms, {framework}"
    return Row(what=what, unit="%", samples=added, budget=1.0, moonshot=0.1)


def _step_seconds(program: str, variables: dict[str, str]) -> float:
    """Of one step of a program."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
