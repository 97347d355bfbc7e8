"""`fit` of Keras on JAX and on PyTorch, unmodified, killed in the middle of an epoch: it ends as if nobody had touched it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.conftest import Server

from .test_resume import Runs, a_killed_chief_changes_nothing, results

pytestmark = pytest.mark.live

PROGRAM = """
import os, sys, threading, keras, numpy as np
keras.utils.set_random_seed(7)
kind, mark = os.environ.get("KIND", "arrays"), os.environ["STOKER_JOB_DIR"] + "/mark"
chance = np.random.default_rng(0)
images = chance.normal(size=(500, 20))
labels = (images[:, :3].sum(1) > 0).astype("int32")
layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2), keras.layers.BatchNormalization()]
model = keras.Sequential([keras.Input((20,)), *layers, keras.layers.Dense(2)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"])
class Ends(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        Ends.steps += 1
        for thread in threading.enumerate():  # the steps are so short that a save would miss most of them
            if thread.name == "stoker-checkpoint":
                thread.join()
        mine = os.environ.get("STOKER_ROLE", "chief") == "chief"
        if mine and Ends.steps == int(sys.argv[1]) and not os.path.exists(mark):
            os.makedirs(os.path.dirname(mark), exist_ok=True)
            open(mark, "w").close()
            os.kill(os.getpid(), int(sys.argv[2]))
asked = dict(validation_data=(images[400:], labels[400:]))
if kind == "arrays":
    asked = dict(x=images, y=labels, batch_size=32, validation_split=0.2, class_weight={0: 1.0, 1: 2.0})
elif kind == "loader":
    import torch
    tensors = [torch.tensor(images[:400], dtype=torch.float32), torch.tensor(labels[:400])]
    class Noisy(torch.utils.data.TensorDataset):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image + 0.01 * torch.randn(20), label
    asked.update(x=torch.utils.data.DataLoader(Noisy(*tensors), batch_size=32, shuffle=True))
elif kind == "generator":
    def batches():
        own = np.random.default_rng(1)
        while True:
            some = own.integers(0, 400, 32)
            yield images[some], labels[some]
    asked.update(x=batches(), steps_per_epoch=13)
else:
    import tensorflow as tf
    train = tf.data.Dataset.from_tensor_slices((images[:400].astype("float32"), labels[:400])).shuffle(400)
    train = train.filter(lambda image, label: image[5] > -1.0) if kind == "length not known" else train
    train = train.batch(32)
    train = train.repeat() if kind == "endless" else train
    asked.update(x=train, **({"steps_per_epoch": 13} if kind == "endless" else {}))
for epochs in (3, 4) if kind not in ("generator",) else (6,):
    told = model.fit(epochs=epochs, verbose=0, callbacks=[Ends()], **asked)
    for name in sorted(told.history):
        print(epochs, name, told.epoch, told.history[name])
print("weights", sum(float(np.abs(weights).sum()) for weights in model.get_weights()), "steps", int(model.optimizer.iterations))
"""
CASES = [
    *(("jax", "arrays", 18), ("jax", "finite", 70), ("jax", "endless", 18), ("jax", "length not known", 50)),
    *(("torch", "arrays", 70), ("torch", "finite", 18), ("torch", "loader", 70), ("torch", "generator", 18)),
]


@pytest.mark.campaign
@pytest.mark.proves("Keras 3 on JAX, `fit`", "Goes on after a kill", "at the same batch, bit-equal, unchanged")
@pytest.mark.proves("Keras 3 on PyTorch, `fit`", "Goes on after a kill", "at the same batch, bit-equal, unchanged")
@pytest.mark.parametrize(("backend", "kind", "step"), CASES)
def test_killed_in_the_middle_of_an_epoch(tmp_path: Path, backend: str, kind: str, step: int) -> None:
    """All that it prints is the same: its weights, and the losses and metrics of all epochs."""
    variables = {"KERAS_BACKEND": backend, "KIND": kind}
    whole = Runs(tmp_path / "whole", PROGRAM)(0, **variables)
    assert results(whole.stdout), whole.stderr
    run = Runs(tmp_path / "killed", PROGRAM)
    killed = run(step, signal.SIGKILL, **variables)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(step, signal.SIGKILL, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout == whole.stdout, "bit by bit"
    assert re.search(r"goes on at step \d+: epoch \d, [1-9]\d* (steps|examples) into it", done.stderr), done.stderr


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["arrays", "finite"])
def test_two_processes_of_jax_whose_chief_is_killed(server: Server, tmp_path: Path, kind: str) -> None:
    """Each is given a part of the data, and restores the weights for itself."""
    given = f"import os\nos.environ.update(KERAS_BACKEND='jax', KIND={kind!r})\n"
    (tmp_path / "program.py").write_text(given + PROGRAM)
    a_killed_chief_changes_nothing(server, tmp_path, kind, 5, "--workers=1", replicas=2)


@pytest.mark.campaign
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_told_to_stop_it_saves_and_says_so_by_its_exit_code(tmp_path: Path, backend: str) -> None:
    run = Runs(tmp_path, PROGRAM)
    stopped = run(18, signal.SIGTERM, KERAS_BACKEND=backend, STOKER_CHECKPOINTS="1h")
    assert stopped.returncode == 143, stopped.stderr
    done = run(18, signal.SIGTERM, KERAS_BACKEND=backend, STOKER_CHECKPOINTS="1h")
    assert done.returncode == 0 and "goes on at step 18: epoch 2, 160 examples into it" in done.stderr, done.stderr
