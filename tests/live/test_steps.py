"""Programs, unmodified, tell of their steps: what `stoker metrics` shows of real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live

SLOW_WORKER = """
import os, time, keras, numpy as np, tensorflow as tf
images = np.random.default_rng(0).normal(size=(2560, 20)).astype("float32")
def slowly(rows):
    time.sleep(0.06 * (os.environ["RANK"] == "1"))
    return rows
def slow(rows):
    return tf.ensure_shape(tf.numpy_function(slowly, [rows], tf.float32), (None, 20))
class Slow(keras.layers.Layer):
    def call(self, rows):
        return slow(rows) if "KIND" == "computes" else rows
train = tf.data.Dataset.from_tensor_slices((images, images[:, 0])).batch(32)
if "KIND" == "reads":
    train = train.map(lambda rows, labels: (slow(rows), labels))
inputs = keras.Input((20,))
model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(16)(Slow()(inputs))))
model.compile(optimizer="adam", loss="mse")
model.fit(train, epochs=4, verbose=0)
"""
TORCH = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 256
    def __getitem__(self, n):
        time.sleep(0.002 if os.environ["STOKER_ROLE"] == "worker" else 0.0001)
        return torch.full((4,), float(n % 7)), torch.ones(1)
loader = DataLoader(Slow(), batch_size=16)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(4):
    model.train()
    for batch, wanted in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), wanted).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for batch, wanted in loader:
            model(batch)
"""
KERAS = """
import time, keras, numpy as np, tensorflow as tf
inputs, wanted = np.ones((2080, 4), "float32"), np.ones((2080, 1), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
def slow(part):
    time.sleep(0.02)
    return part
def read(part, wanted):
    return tf.ensure_shape(tf.numpy_function(slow, [part], tf.float32), [None, 4]), wanted
data = tf.data.Dataset.from_tensor_slices((inputs, wanted)).batch(32)
model.fit(data.map(read), epochs=2, verbose=0, validation_data=data)
model.fit(inputs, wanted, batch_size=64, epochs=1, verbose=0, validation_split=0.5, callbacks=keras.callbacks.TerminateOnNaN())
"""
OWN = """
import stoker
for number in range(5):
    stoker.step(examples=8, loss=1 / (number + 1), broken=float("inf"))
"""


def metrics(server: Server, folder: Path, program: str, name: str, *flags: str) -> tuple[dict[str, Any], str]:
    """How a program trains: the replicas by their names, and what the command line says."""
    (folder / "program.py").write_text(program)
    done = server.cli("run", "--name", name, *flags, "--", "python", "program.py", cwd=folder, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = server.cli("metrics", name)
    told = json.loads(server.cli("metrics", name, "--json").stdout)["training"]
    return told | {"by": {replica["replica"]: replica for replica in told["replicas"]}}, shown.stdout + shown.stderr


@pytest.mark.proves("A PyTorch loop with a `DataLoader`", "Steps are told", "with data wait and exchange")
def test_torch_on_two_processes_one_of_which_reads_slowly(server: Server, tmp_path: Path) -> None:
    flags = ("--workers=1", "--distribute=auto")
    told, shown = metrics(server, tmp_path, TORCH, "two", *flags)
    chief, worker = told["by"]["chief-0"], told["by"]["worker-0"]
    assert chief["step"] == worker["step"] == 32, "evaluation has no steps"
    assert sum(point["step"] == 1 for point in chief["series"]) == 1
    assert chief["together_share"] > 0.3 > worker["together_share"] and worker["data_wait_share"] > 0.5
    assert chief["epoch_steps"] == worker["epoch_steps"] == 8, "each reads its half"
    assert worker["examples_per_second"] == pytest.approx(16 * worker["steps_per_second"])
    assert (told["way"], told["replicas_in_step"]) == ("averaged gradients", 2)
    assert chief["values"].keys() == {"loss", "learning_rate"} and chief["values"]["learning_rate"] == 0.001
    assert [finding["code"] for finding in told["findings"]] == ["INPUT_BOUND", "STRAGGLER"]
    assert "worker-0 takes" in shown and "most of the difference waiting for data" in shown
    assert "trains on 2 replicas in step (averaged gradients)" in shown and "STEPS/S" in shown


@pytest.mark.campaign
@pytest.mark.proves("Keras 3 on TensorFlow, `fit`", "Steps are told", "with who is waited for on several replicas")
@pytest.mark.parametrize("kind", ["reads", "computes"])
def test_keras_on_two_workers_one_of_which_is_slow(server: Server, tmp_path: Path, kind: str) -> None:
    told, shown = metrics(
        server, tmp_path, SLOW_WORKER.replace("KIND", kind), f"slowly_{kind}", "--workers=1", "--distribute=auto"
    )
    chief, worker = told["by"]["chief-0"], told["by"]["worker-0"]
    assert chief["together_share"] > worker["together_share"] + 0.1
    assert [finding["code"] for finding in told["findings"]] == ["STRAGGLER"] and "worker-0 takes" in shown


@pytest.mark.proves("Keras 3 on TensorFlow, `fit`", "Steps are told", "with data wait on one device")
def test_keras_that_waits_for_its_data(server: Server, tmp_path: Path) -> None:
    told, shown = metrics(server, tmp_path, KERAS, "waits")
    chief = told["by"]["chief-0"]
    assert chief["step"] == 2 * 65 + 17 and chief["epoch_steps"] == 17
    slow = [point for point in chief["series"] if point["data_wait_share"] and 1 < point["step"] <= 65]
    assert slow and all(point["data_wait_share"] > 0.5 for point in slow)
    assert {"loss", "mae", "val_loss", "val_mae"} <= chief["values"].keys() and "val_loss" in shown
    assert chief["first_step_seconds"] > chief["step_seconds"]
    output = server.cli("logs", "waits").stdout
    assert "stoker" not in output and '"step"' not in output, "what it tells of its steps is no output"


@pytest.mark.proves("Any other loop", "Steps are told", "by `stoker.step()`")
def test_a_loop_of_its_own_and_a_program_without_steps(server: Server, tmp_path: Path) -> None:
    told, shown = metrics(server, tmp_path, OWN, "own")
    assert told["by"]["chief-0"]["step"] == 5 and told["by"]["chief-0"]["values"] == {"loss": 0.2, "broken": "inf"}
    assert "! broken of chief-0 is inf, since step 1 or shortly before" in shown
    told, shown = metrics(server, tmp_path, "print('hello')", "none")
    assert told["replicas"] == [] and "no step was seen" in shown and "stoker.step(" in shown
    missing = server.cli("metrics", "nobody")
    assert missing.returncode == 3 and "no job local/nobody" in missing.stderr


FOR_EVER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
loader = DataLoader(TensorDataset(torch.zeros(512, 64)), batch_size=32)
def train_a_step(batch):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
while True:
    for (batch,) in loader:
        train_a_step(batch)
"""
KERAS_FOR_EVER = """
import keras, numpy as np
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((640, 4)), np.ones((640, 1)), epochs=1000000, verbose=0)
"""


@pytest.mark.parametrize(
    ("program", "end"),
    [(FOR_EVER, "trace.pt.trace.json.gz"), pytest.param(KERAS_FOR_EVER, ".xplane.pb", marks=pytest.mark.campaign)],
)
def test_a_job_that_runs_is_looked_into(server: Server, tmp_path: Path, program: str, end: str) -> None:
    (tmp_path / "program.py").write_text(program)
    name = f"busy_{len(program)}"
    flags = ("--name", name, "--async", "--workers=1", f"--job-dir=gs://out/{name}")
    assert server.cli("run", *flags, "--", "python", "program.py", cwd=tmp_path).returncode == 0
    try:
        _look_into(server, name, end)
    finally:  # it would hold what other tests wait for
        server.client.cancel("local", name)
        wait_until(lambda: server.client.details("local", name)["state"] == "CANCELLED")
    refused = server.cli("profile", name)
    assert refused.returncode != 0 and "does not run now" in refused.stderr


def _look_into(server: Server, name: str, end: str) -> None:
    wait_until(lambda: len(server.client.steps("local", name)["replicas"]) == 2, 120.0)
    done = server.cli("profile", name, "--seconds=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("where its time goes") == 2 and "program.py:" in done.stdout
    for replica in ("chief-0", "worker-0"):
        traces = [line for line in done.stderr.splitlines() if line.startswith(f"✓ trace of {replica}: ")]
        assert len(traces) == 1 and str(server.home / f"buckets/gs/out/{name}/logs/traces") in traces[0], done.stderr
    assert list((server.home / f"buckets/gs/out/{name}/logs/traces").rglob(f"*{end}"))
    one = json.loads(server.cli("profile", name, "--seconds=0", "--replica=worker-0", "--json").stdout)
    assert [found["replica"] for found in one["replicas"]] == ["worker-0"] and one["replicas"][0]["processes"]
    assert "runs no ps-0" in server.cli("profile", name, "--replica=ps-0").stderr


SMALL = """
import sys
if sys.argv[1] == "tf_keras":
    import tf_keras as keras
else:
    import keras
import numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
model.fit(np.ones((1280, 8)), np.ones((1280, 1)), batch_size=32, epochs=3, verbose=0, validation_split=0.2)
"""


@pytest.mark.proves("Keras 3 on JAX, `fit`", "Steps are told", "unchanged")
@pytest.mark.proves("Keras 3 on PyTorch, `fit`", "Steps are told", "unchanged")
@pytest.mark.proves("tf_keras, `fit`", "Steps are told", "unchanged")
@pytest.mark.campaign
@pytest.mark.parametrize("backend", ["jax", "torch", "tf_keras"])
def test_fit_on_other_backends(server: Server, tmp_path: Path, backend: str) -> None:
    (tmp_path / "program.py").write_text(SMALL)
    flags = (
        ("--name", f"on_{backend}")
        if backend == "tf_keras"
        else ("--name", f"on_{backend}", f"--env=KERAS_BACKEND={backend}")
    )
    done = server.cli("run", *flags, "--", "python", "program.py", backend, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (chief,) = server.client.steps("local", f"on_{backend}")["replicas"]
    assert chief["step"] == 96 and chief["values"].keys() >= {"loss", "mae", "val_loss"}
    assert sum(point["step"] == 1 for point in chief["series"]) == 1


UNUSUAL = """
import torch, gc, weakref
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.zeros(64, 4), torch.zeros(64, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader):
    for batch, wanted in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), wanted).backward()
        optimizer.step()
train(DataLoader(data, batch_size=16))
for batch, wanted in DataLoader(data, batch_size=2):  # gradients are off within only
    with torch.no_grad():
        model(batch)
nested = DataLoader([torch.ones(2)], collate_fn=lambda some: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]))
print("odd", len(list(nested)))
train(DataLoader(data, batch_size=16))
parameter = weakref.ref(next(model.parameters()))
del model, optimizer
gc.collect()
print("kept", parameter() is not None)
"""


def test_unusual_loops_are_not_disturbed(server: Server, tmp_path: Path) -> None:
    told, _ = metrics(server, tmp_path, UNUSUAL, "unusual")
    assert told["by"]["chief-0"]["step"] == 8, "what was read and not trained on has no steps"
    assert "odd 1" in (output := server.cli("logs", "unusual").stdout) and "kept False" in output
