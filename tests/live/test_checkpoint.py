"""Real programs with loops of their own, killed and told to stop: they end as if nobody had touched them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.runtime.zipapp import HOOKS, build
from tests.conftest import Server

pytestmark = pytest.mark.live

_BEGIN = """
import os, signal, sys
def interrupt(step, rank=0):
    mark, (at, who, number) = os.environ["STOKER_JOB_DIR"] + "/mark", map(int, sys.argv[1].split(":"))
    if (step, rank) == (at, who) and not os.path.exists(mark):
        os.makedirs(os.path.dirname(mark), exist_ok=True)
        open(mark, "w").close()
        os.kill(os.getpid(), number)
"""
JAX = (
    _BEGIN
    + """
import jax, jax.numpy as jnp, numpy as np
from stoker import checkpoint
chance = np.random.RandomState(0)
images = chance.randn(640, 8).astype("float32")
state = checkpoint.State(weights={"one": jnp.zeros((8, 4)), "two": jnp.asarray(chance.randn(4))}, key=jax.random.key(3), seen=0)
@jax.jit
def step(weights, batch, key):
    def loss(weights):
        hidden = jnp.tanh(batch @ weights["one"] + 0.1 * jax.random.normal(key, (4,)))
        return jnp.mean((hidden @ weights["two"] - batch[:, 0]) ** 2)
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, jax.grad(loss)(weights))
for number in state.steps(60):
    key, state.key = jax.random.split(state.key)
    at = number * 32 % 640
    state.weights = step(state.weights, images[at : at + 32], key)
    state.seen += 32
    if number == 9:
        state.save()
    interrupt(number)
print("result", repr(float(jnp.abs(state.weights["one"]).sum())), state.seen)
"""
)
TENSORFLOW = (
    _BEGIN
    + """
import keras, numpy as np, tensorflow as tf
from stoker import checkpoint
keras.utils.set_random_seed(3)
chance = np.random.RandomState(0)
images = chance.randn(320, 8).astype("float32")
data = tf.data.Dataset.from_tensor_slices((images, (images[:, 0] > 0).astype("int32"))).batch(32)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam(0.01)
if not os.environ.get("UNBUILT"):
    model.build((None, 8))
    optimizer.build(model.trainable_variables)
state = checkpoint.State(model=model, optimizer=optimizer)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
for epoch in state.epochs(3):
    for batch, wanted in state.batches(data):
        with tf.GradientTape() as tape:
            value = loss(wanted, model(batch, training=True))
        optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
        interrupt(state.step)
print("result", repr(float(np.abs(model.get_weights()[0]).sum())), int(optimizer.iterations.numpy()))
"""
)
TORCH = (
    _BEGIN
    + """
import torch, torch.distributed as together
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from stoker import checkpoint
rank, count, way = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[2]
torch.manual_seed(7)
images = torch.randn(320, 20)
data = torch.utils.data.TensorDataset(images, (images[:, :3].sum(1) > 0).long())
model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 2))
sampler = None
if count > 1:
    together.init_process_group("gloo")
    sampler = torch.utils.data.distributed.DistributedSampler(data, seed=1)
    if way == "fsdp":
        model = fully_shard(model, mesh=init_device_mesh("cpu", (count,)))
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
loader = torch.utils.data.DataLoader(data, batch_size=32 // count, shuffle=sampler is None, sampler=sampler)
state = checkpoint.State(model=model, optimizer=optimizer)
for epoch in state.epochs(3):
    if sampler:
        sampler.set_epoch(epoch)
    for batch, wanted in state.batches(loader):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), wanted).backward()
        optimizer.step()
        interrupt(state.step, rank)
parameters = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
print("result", repr(float(sum(p.detach().double().abs().sum() for p in parameters))), state.step)
"""
)


class Runs:
    """Runs a program with the hooks, each time in a process of its own."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder, self.hooks = folder, f"{build(str(folder / 'cache'))}/{HOOKS}"
        (folder / "program.py").write_text(program)

    def __call__(self, name: str, at: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Until it ends."""
        program = self.begin(name, at, **variables)
        output, errors = program.communicate(timeout=120)
        return subprocess.CompletedProcess(program.args, program.returncode, output, errors)

    def begin(self, name: str, at: str = "", **variables: str) -> subprocess.Popen[str]:
        """Start it."""
        job = self.folder / name
        told = {
            "STOKER_CHECKPOINTS": "0.000001",
            "STOKER_JOB_DIR": str(job),
            "STOKER_CHECKPOINT_DIR": str(job / "checkpoints"),
            "PYTHONPATH": self.hooks,
        }
        return subprocess.Popen(
            [sys.executable, "-u", "program.py", at],
            cwd=self.folder, env={**os.environ, **told, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


def results(text: str) -> list[str]:
    return sorted(re.findall(r"result (\S+ \d+)", text))


@pytest.mark.proves("JAX, a loop of its own", "Goes on after a kill", "at the same batch, by `checkpoint.State`")
@pytest.mark.proves("TensorFlow, a loop of its own", "Goes on after a kill", "at the same batch, by `checkpoint.State`")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(JAX, id="jax", marks=pytest.mark.campaign),
        pytest.param(TENSORFLOW, id="tensorflow", marks=pytest.mark.campaign),
    ],
)
def test_killed_and_told_to_stop(tmp_path: Path, program: str) -> None:
    run = Runs(tmp_path, program)
    untouched = run("untouched", "-1:0:0")
    assert results(untouched.stdout), untouched.stderr
    for name, number, code in (("killed", signal.SIGKILL, -9), ("told", signal.SIGTERM, 143)):
        assert run(name, f"17:0:{int(number)}").returncode == code
        again = run(name, "-1:0:0")
        assert results(again.stdout) == results(untouched.stdout), again.stderr
        assert re.search(r"goes on at step [1-9]", again.stderr)


@pytest.mark.campaign
def test_variables_that_are_not_there_yet(tmp_path: Path) -> None:
    done = Runs(tmp_path, TENSORFLOW)("job", "-1:0:0", UNBUILT="1")
    assert done.returncode == 1 and "model has not all of its variables yet" in done.stderr, done.stderr
    assert "build the model and its optimizer before the first loop" in done.stderr


@pytest.mark.proves(
    "A PyTorch loop with a `DataLoader`", "Goes on after a kill", "at the same batch, by `checkpoint.State`"
)
@pytest.mark.campaign
def test_the_example_is_killed_and_goes_on(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/own_loop/torch_train.py"
    run = Runs(tmp_path, example.read_text())
    untouched = run("untouched", "")
    assert untouched.stdout.count("epoch") == 20, untouched.stderr
    with run.begin("killed", STOKER_CHECKPOINTS="0.2") as program:
        assert program.stdout is not None
        while not program.stdout.readline().startswith("epoch 6:"):
            pass
        program.kill()
    again = run("killed", "")
    assert "goes on at step" in again.stderr and 0 < again.stdout.count("epoch") < 20
    assert again.stdout.splitlines() == untouched.stdout.splitlines()[-again.stdout.count("epoch") :], (
        "to the same figures"
    )


@pytest.mark.proves("A program that distributes itself", "Goes on after a kill", "DDP and FSDP, by `checkpoint.State`")
@pytest.mark.campaign
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_workers_of_which_one_is_killed(server: Server, tmp_path: Path, way: str) -> None:
    """All begin from the same step; what is sharded is written by all, and read by another number of them."""
    (tmp_path / "program.py").write_text(TORCH)
    found = {}
    for name, at, workers in (
        ("untouched", "-1:0:0", 1),
        ("killed", "25:1:9", 1),
        ("told", "25:1:15", 1),
        ("fewer", "", 0),
    ):
        job = f"{way}_{name}"
        flags = [f"--name={job}", f"--workers={workers}", "--checkpoints=0.05s", f"--job-dir=gs://out/{job}"]
        if name == "fewer":
            flags[-1] = f"--job-dir=gs://out/{way}_untouched"
        done = server.cli("run", *flags, "--", "python", "program.py", at or "-1:0:0", way, cwd=tmp_path, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        found[name] = results(done.stdout)
        attempts = len(server.client.details("local", job)["attempts"])
        is_again = attempts == 2 or "is started again in place" in done.stdout + done.stderr
        assert is_again == (name in ("killed", "told"))
    assert found["killed"] == found["told"] == found["untouched"] and len(found["untouched"]) == 2
    assert found["fewer"] == found["untouched"][:1], "it was over, and is read by one"
    saves = server.client.steps("local", f"{way}_killed")["saves"]
    assert saves["step"] == 30 and saves["resumed_step"] is not None and saves["count"] >= 1 and saves["bytes"] > 0
