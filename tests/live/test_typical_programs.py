"""Habits of programs that were written for one device, with `--distribute auto`: they work, or are refused in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = pytest.mark.live

HABITS = """
import os, shutil, torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.randperm(64).tolist()

images = torch.randn(400, 4, generator=torch.Generator().manual_seed(0)) + torch.arange(400)[:, None] * 0.01
data = TensorDataset(images, (images[:, 0] > 2).long())
train, held_out = DataLoader(data, batch_size=20), DataLoader(data, batch_size=50)
print("looked at", sum(len(x) for x, _ in train), "mean", round(float(sum(x.mean() for x, _ in train)) / len(train), 4))
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2))
slow = AveragedModel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
print("steps", len(train))
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=2 * len(train))

def test(model):
    batches, loss = len(held_out), 0.0
    model.eval()
    with torch.no_grad():
        for x, y in held_out:
            loss += nn.functional.cross_entropy(model(x), y).item()
    return loss / batches

for epoch in range(2):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
        slow.update_parameters(model)
    if int(os.environ["RANK"]):
        torch.rand(17)  # chance goes different ways
    print("read", sorted(number for batch in DataLoader(Stream(), batch_size=4) for number in batch.tolist()))
    model.eval()
    direct = sum(nn.functional.cross_entropy(model(x), y).item() for x, y in DataLoader(data, 50)) / 8
    print("as it is", abs(test(model) - direct) < 1e-6, "loss", round(test(slow), 5))

fold = nn.Linear(4, 2)
again = torch.optim.SGD(fold.parameters(), lr=0.1)
print("fold of", sum(len(x) for x, _ in train))

for folder in (os.getcwd(), os.environ["STOKER_JOB_DIR"]):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.pt")
    torch.save({"rank": os.environ["RANK"]}, path + ".tmp")
    os.replace(path + ".tmp", path)
    shutil.copyfile(path, os.path.join(folder, "best.pt"))
    size = os.path.getsize(path)
    os.remove(path)
    print("kept", torch.load(os.path.join(folder, "best.pt"))["rank"], size > 0, os.path.exists(path))
"""


def outputs(text: str) -> list[list[str]]:
    """What each of two replicas has printed."""
    return [re.findall(rf"^{name}\s+(?!stoker)(.*)$", text, re.MULTILINE) for name in ("chief-0", "worker-0")]


def test_what_loops_of_pytorch_do_beside_training(server: Server, tmp_path: Path) -> None:
    """Look at the data before, ask how many batches there are, average weights, shuffle a stream, and care for their files."""
    (tmp_path / "program.py").write_text(HABITS)
    flags = ("--name=habits", "--workers=1", "--distribute=auto", "--job-dir=gs://out/habits")
    done = server.cli("run", *flags, "--", "python", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    chief, worker = outputs(done.stdout)
    for said in ("looked", "steps 10", "as it is", "fold of 200"):
        assert [line for line in chief if line.startswith(said)] == [line for line in worker if line.startswith(said)]
    assert (
        chief[0].startswith("looked at 400 ")
        and chief[1] == "steps 10"
        and sum("as it is True" in line for line in chief) == 2
    )
    for ones, others in zip(
        *([line for line in lines if line.startswith("read")] for lines in (chief, worker)), strict=True
    ):
        assert sorted(map(int, re.findall(r"\d+", ones + others))) == list(range(64)), "each example was one's"
    assert "fold of 200" in chief, "its model was never told to train"
    assert [line for line in chief if "kept" in line] == ["kept 0 True False"] * 2
    assert [line for line in worker if "kept" in line] == ["kept 1 True False"] * 2, (
        "each finds what it has saved itself"
    )
    assert sorted(file.name for file in (server.home / "buckets/gs/out/habits").glob("*.*")) == ["best.pt"]


BY_HAND = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(2, 1)
for batch in DataLoader(torch.ones(64, 2), batch_size=2):
    model(batch).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
"""
NOT_MET = """
import sys, torch
if "--distributed" in sys.argv:
    torch.distributed.init_process_group()
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 2)).sum().backward()
optimizer.step()
"""
BY_A_LIBRARY = """
import torch
model = torch.nn.Linear(2, 1)
name = "Distributed" + "DataParallel"
getattr(torch.nn.parallel, name)(model)
"""
STOPS = """
import os, torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(DataLoader(torch.ones(64, 2), batch_size=2)):
    if step == 5 and os.environ["RANK"] == "1":
        break
    model(batch).sum().backward()
    optimizer.step()
"""
SPLITS = """
import random, torch
from torch.utils.data import DataLoader, Subset
indices = list(range(40))
random.Random().shuffle(indices)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Subset(torch.ones(40, 2), indices[:32]), batch_size=4, shuffle=True):
    model(batch).sum().backward()
    optimizer.step()
"""
SPAWNS = """
import torch, torch.multiprocessing as mp
def train(rank, count):
    torch.distributed.init_process_group("gloo", "tcp://127.0.0.1:29500", rank=rank, world_size=count)
if __name__ == "__main__":
    mp.spawn(train, args=(2,), nprocs=2)
"""
GRADIENTS = """
import torch
weight = torch.zeros(2, requires_grad=True)
(gradient,) = torch.autograd.grad((weight - 1).square().sum(), weight)
"""
ONE_DEVICE = """
import jax
print(jax.grad(lambda x: x**2)(1.0))
"""
TAPE = """
import keras, tensorflow as tf
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
with tf.GradientTape() as tape:
    loss = model(tf.ones((2, 2)))
"""


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (BY_HAND, "has no torch.optim optimizer: its weights would be each process's own"),
        (
            NOT_MET,
            "has what distributes it (init_process_group, line 4 of program.py) and has not used it: its 2 processes",
        ),
        (BY_A_LIBRARY, "a library of the program's distributes it, too (DistributedDataParallel)"),
        (SPLITS, "its data are others than those of the first process: it splits or weighs them by chance"),
        (SPAWNS, "starts its processes itself (mp.spawn, line 6 of program.py) and does not ask which of 2 replicas"),
        (GRADIENTS, "computes gradients (autograd.grad, line 4 of program.py) and has no torch.optim optimizer"),
        (STOPS, "process 1 has ended after 5 steps, and this one goes on after 5: each decides by numbers of its own"),
        (ONE_DEVICE, "computes on one device, and JAX would have each of the 2 processes train by itself"),
        pytest.param(
            TAPE,
            "a training loop of the program's own (GradientTape, line 4 of program.py) is not distributed",
            marks=pytest.mark.campaign,
        ),
    ],
    ids=[
        "weights by hand",
        "has not met",
        "a library's way",
        "a split",
        "spawns",
        "gradients",
        "one stops",
        "jax on one device",
        "a loop of TensorFlow",
    ],
)
def test_what_would_train_alone_is_refused(server: Server, tmp_path: Path, program: str, why: str) -> None:
    """The summary says why, not the log alone."""
    (tmp_path / "program.py").write_text(program)
    done = server.cli("run", "--workers=1", "--distribute=auto", "--", "python", "program.py", cwd=tmp_path)
    assert done.returncode == 1
    said = re.sub(r"\s+", " ", done.stderr + done.stdout)
    assert "(REFUSED)" in said and why in said, said


FINE_TUNED = """
import torch
from torch.utils.data import DataLoader
body, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
model = torch.nn.Sequential(body, head)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader, seen = DataLoader(torch.ones(64, 2), batch_size=8, shuffle=True), []
for epoch in range(3):
    body.eval()
    head.train()
    seen.append(0)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        seen[-1] += len(batch)
    model.eval()
    with torch.no_grad():
        held_out = sum(len(batch) for batch in DataLoader(torch.ones(10, 2), batch_size=2))
print("seen", seen, held_out)
"""


@pytest.mark.campaign
def test_a_part_of_a_model_that_is_told_to_train(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FINE_TUNED)
    done = server.cli("run", "--workers=1", "--distribute=auto", "--", "python", "program.py", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("seen [32, 32, 32] 10") == 2, done.stdout + done.stderr


ORDER = """
import torch
from torch.utils.data import DataLoader
torch.manual_seed(5)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.arange(16.0).reshape(16, 1), batch_size=8, shuffle=True):
    print("order", batch.flatten().int().tolist())
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.mark.campaign
def test_the_order_of_examples_is_that_of_the_programs_seed(server: Server, tmp_path: Path) -> None:
    """Whatever the job is called."""
    (tmp_path / "program.py").write_text(ORDER)
    found = []
    for name in ("one", "other"):
        flags = (f"--name={name}", "--workers=1", "--distribute=auto")
        found.append(server.cli("run", *flags, "--", "python", "program.py", cwd=tmp_path).stdout)
    orders = [sorted(re.findall(r"order (.*)", output)) for output in found]
    assert orders[0] == orders[1] and len(set(orders[0])) == 2


OTHERS_KERAS = """
import os, torch
from torch.utils.data import DataLoader
if os.environ["RANK"] == "0":
    __import__("ke" + "ras")
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.ones(8, 2), batch_size=2):
    model(batch).sum().backward()
    optimizer.step()
print("weights", round(float(model.weight.sum()), 6))
"""


@pytest.mark.campaign
def test_keras_that_a_library_imports_is_left_alone(server: Server, tmp_path: Path) -> None:
    """TensorBoard brings TensorFlow and Keras into programs of PyTorch, on the chief perhaps only: nobody waits for anybody."""
    (tmp_path / "program.py").write_text(OTHERS_KERAS)
    done = server.cli(
        "run", "--workers=1", "--distribute=auto", "--", "python", "program.py", cwd=tmp_path, timeout=120
    )
    chief, worker = outputs(done.stdout)
    assert done.returncode == 0 and chief[-1] == worker[-1] and "averaged gradients" in done.stderr


COMPOSED = """
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)

class Pair(keras.Model):
    def __init__(self):
        super().__init__()
        self.maker = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        self.judge = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    def compile(self, maker_optimizer, judge_optimizer):
        super().compile()
        self.maker_optimizer, self.judge_optimizer = maker_optimizer, judge_optimizer
    def train_step(self, data):
        for model, optimizer, sign in ((self.judge, self.judge_optimizer, 1.0), (self.maker, self.maker_optimizer, -1.0)):
            with tf.GradientTape() as tape:
                loss = sign * keras.ops.mean(keras.ops.square(self.judge(self.maker(data)) - 1.0))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
        return {"loss": loss}

read = []
def batches():
    for number in range(20):
        read.append(number)
        yield (np.full((8, 2), number / 20, "float32"),)

pair = Pair()
pair.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.01))
told = pair.fit(batches(), steps_per_epoch=10, epochs=2, verbose=0)
print("steps", int(pair.judge_optimizer.iterations.numpy()), "read", len(read), read[0], len(told.history["loss"]))
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
keeps = keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True)
model.fit(np.ones((32, 2)), np.ones((32, 1)), verbose=0, callbacks=[keeps])
model.load_weights("best.weights.h5")
print("weights", round(sum(float(np.abs(w).sum()) for w in [*pair.get_weights(), *model.get_weights()]), 5))
"""


@pytest.mark.campaign
@pytest.mark.parametrize(
    "where", [("--workers=1",), ("--rehearse", "--gpus=2", "--gpu-type=T4")], ids=["replicas", "GPUs"]
)
def test_keras_a_model_made_of_others_a_generator_that_ends_and_files_read_back(
    server: Server, tmp_path: Path, where: tuple[str, ...]
) -> None:
    (tmp_path / "program.py").write_text(COMPOSED)
    done = server.cli("run", *where, "--distribute=auto", "--", "python", "program.py", cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps 20 read 20 0 2" in done.stdout
    weights = re.findall(r"weights ([\d.]+)", done.stdout)
    assert len(weights) == (2 if where == ("--workers=1",) else 1) and len(set(weights)) == 1
