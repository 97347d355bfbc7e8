"""What it costs a step of training to be measured: the same loop with its framework's hooks and without them, in turn.

Both take turns in one process: two processes differ by more than what is looked for. PyTorch's loop does as little as it can,
so that what the hooks add stands out; it is shown as a part of a step of 5 ms. Keras' steps take about as long as that, as
its data are timed for a part of the time, not for a part of the steps; its turns last for a second, and are half of the time, so
that what is done now and then weighs twice. What is compared is the processor's time: others' work disturbs it less.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .measure import Row

RUNS = 11

TORCH = """
import sys, time, torch
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset, dataloader
from stoker.frameworks.torch.optimizer_steps import measure
torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(6400, 16), torch.randn(6400, 1)), batch_size=32)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
hooks = optimizers._global_optimizer_post_hooks

def places():
    return dataloader._BaseDataLoaderIter.__next__, DataLoader.__iter__, torch.Tensor.backward, dict(hooks)

def put(found):
    dataloader._BaseDataLoaderIter.__next__, DataLoader.__iter__, torch.Tensor.backward, kept = found
    hooks.clear()
    hooks.update(kept)

def train():
    began = time.process_time()
    for batch, wanted in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), wanted).backward()
        optimizer.step()
    return (time.process_time() - began) / 200

bare = places()
measure(torch)
measured = places()
train()
for _ in range(int(sys.argv[1])):
    added = []
    for _ in range(20):
        put(bare)
        without = train()
        put(measured)
        added.append(train() - without)
    print(sum(added) / 20 / 0.005)
"""
KERAS = """
import sys, time, keras, numpy as np, tensorflow as tf
from stoker.frameworks.keras.fit_steps import measure
tf.config.threading.set_intra_op_parallelism_threads(1)
inputs, wanted = np.ones((6400, 512), "float32"), np.ones((6400, 1), "float32")
layers = keras.layers
model = keras.Sequential([keras.Input((512,)), layers.Dense(512), layers.Dense(512), layers.Dense(1)])
model.compile("sgd", "mse")

def train(epochs):
    began = time.process_time()
    model.fit(inputs, wanted, batch_size=64, epochs=epochs, verbose=0)
    return (time.process_time() - began) / (100 * epochs)

bare = keras.Model.fit
measure(keras)
measured = keras.Model.fit
epochs = max(1, round(0.01 / train(3)))
for _ in range(int(sys.argv[1])):
    without = taken = 0.0
    for _ in range(10):
        keras.Model.fit = bare
        without += train(epochs)
        keras.Model.fit = measured
        taken += train(epochs)
    print(taken / without - 1)
"""


def measure(runs: int) -> list[Row]:
    """The rows of this part."""
    return [_row("PyTorch", TORCH, runs), _row("Keras on TensorFlow", KERAS, runs)]


def _row(framework: str, program: str, runs: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "STOKER_BEAT_FILE": str(Path(folder, "beat"))}
        command = [sys.executable, "-c", program, str(runs)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    shares = [100 * float(line) for line in done.stdout.splitlines()]
    return Row(what=f"measuring a step of about 5 ms, {framework}", unit="%", samples=shares, budget=1.0, moonshot=0.1)
