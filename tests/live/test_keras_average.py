"""Several replicas of Keras come to what one comes to with the whole batch: its gradient, its metrics, what it evaluates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = pytest.mark.live

PROGRAM = """
import os, sys, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
if os.environ.get("HALF"):
    keras.mixed_precision.set_global_policy("mixed_float16")
size, count, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
chance = np.random.default_rng(0)
images = chance.normal(size=(count, 5)).astype("float32")
labels = images.sum(1, keepdims=True)
mean = keras.losses.MeanSquaredError()
class Own(keras.Model):
    def train_step(self, data):
        images, labels = data
        with tf.GradientTape() as tape:
            found = self(images, training=True)
            loss = mean(labels, found) if kind == "object" else tf.reduce_mean((found - labels) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
        return {"loss": loss}
inputs = keras.Input((5,))
hidden = keras.layers.Dense(8, activation="tanh")(inputs)
hidden = keras.layers.BatchNormalization()(hidden) if kind == "normalized" else hidden
rule = None if kind == "none" else "l2"
model = (Own if kind in ("own", "object") else keras.Model)(inputs, keras.layers.Dense(1, kernel_regularizer=rule)(hidden))
loss = keras.losses.MeanSquaredError(reduction=kind if kind in ("sum", "none") else "sum_over_batch_size")
clips = {"clipnorm": 0.05} if kind == "clipped" else {}
model.compile(keras.optimizers.SGD(0.001 if kind in ("sum", "none") else 0.05, **clips), loss)
folder = os.environ["FOLDER"]
if kind == "files":
    def read(name):
        lines = tf.data.TextLineDataset(name).map(lambda line: tf.strings.to_number(tf.strings.split(line, ","), tf.float32))
        return lines.map(lambda row: (row[:5], row[5:])).batch(size)
    data = read(folder + "/data.csv")
    held_out = data.unbatch().take(20).batch(size)
    told = model.fit(data, validation_data=held_out, epochs=2, verbose=0)
    more = [model.evaluate(held_out, verbose=0), len(model.predict(held_out, verbose=0))]
else:
    told, more = model.fit(images, labels, batch_size=size, epochs=2, shuffle=False, verbose=0), []
values = [] if kind in ("own", "object") else [value for values in told.history.values() for value in values]
kept = [float(np.abs(weights).sum()) for weights in model.get_weights()]
print("result", *map(float, [*values, *more, *kept]))
"""


def numbers(output: str) -> list[list[float]]:
    """Of each process, all that it prints."""
    return [[float(n) for n in line.split()] for line in re.findall(r"result (.*)", output)]


@pytest.mark.campaign
@pytest.mark.parametrize("library", ["keras", "tf_keras"])
@pytest.mark.parametrize(
    ("kind", "count", "where"),
    [
        *((kind, 64, ("--workers=1",)) for kind in ("own", "object", "sum", "none", "clipped", "files")),
        *(("plain", count, ("--workers=1",)) for count in (33, 37)),
        ("own", 37, ("--rehearse", "--gpus=2", "--gpu-type=T4")),
        ("plain", 37, ("--workers=2",)),
    ],
)
def test_as_one_device_with_the_whole_batch(
    server: Server, tmp_path: Path, kind: str, count: int, where: tuple[str, ...], library: str
) -> None:
    (tmp_path / "program.py").write_text(f"import {library} as keras\n{PROGRAM}")
    rows = [",".join(str((row * 7 + column * 3) % 11 / 11) for column in range(6)) for row in range(count)]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    replicas = 3 if where == ("--workers=2",) else 2
    alone = subprocess.run(
        [sys.executable, "program.py", str(8 * replicas), str(count), kind],
        cwd=tmp_path, env={**os.environ, "FOLDER": "."}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    command = ("python", "program.py", "8", str(count), kind)
    done = server.cli("run", *where, "--distribute=auto", "--env=FOLDER=.", "--", *command, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (expected,) = numbers(alone.stdout)
    found = numbers(done.stdout)
    assert len(found) == (1 if "--rehearse" in where else replicas) and len(expected) >= 4
    for one in found:
        assert one == pytest.approx(expected, rel=2e-4)


@pytest.mark.campaign
def test_normalization_is_averaged_and_wants_an_example_on_each_replica(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"import keras\n{PROGRAM}")

    def run(count: int) -> subprocess.CompletedProcess[str]:
        command = ("python", "program.py", "8", str(count), "normalized")
        flags = ("--workers=1", "--distribute=auto", "--env=FOLDER=.")
        return server.cli("run", *flags, "--", *command, cwd=tmp_path, timeout=240)

    one, other = numbers(run(64).stdout)
    assert one == other, "moving averages, too"
    said = re.sub(r"\s+", " ", run(33).stderr)
    assert "the last batch of an epoch has 1 of its 33 examples, too few for 2 replicas" in said and "(REFUSED)" in said


@pytest.mark.campaign
@pytest.mark.parametrize(
    "where", [("--workers=1",), ("--rehearse", "--gpus=2", "--gpu-type=T4")], ids=["workers", "gpus"]
)
def test_a_step_is_left_out_by_all_where_one_has_numbers_too_large_for_fp16(
    server: Server, tmp_path: Path, where: tuple[str, ...]
) -> None:
    """An example of the second replica alone has gradients that are not finite."""
    (tmp_path / "program.py").write_text(
        f"import keras\n{PROGRAM}".replace("labels = images.sum", "images[12] = 6e4\nlabels = images.sum")
    )
    command, half = ("python", "program.py", "8", "37", "plain"), {"FOLDER": ".", "HALF": "1"}
    alone = subprocess.run(
        [sys.executable, "program.py", "16", "37", "plain"],
        cwd=tmp_path, env={**os.environ, **half}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    flags = [f"--env={name}={value}" for name, value in half.items()]
    done = server.cli("run", *where, "--distribute=auto", *flags, "--", *command, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    found, (expected,) = (
        numbers(done.stdout.replace("nan", "0").replace("inf", "0")),
        numbers(alone.stdout.replace("nan", "0").replace("inf", "0")),
    )
    assert found and all(one[-4:] == pytest.approx(expected[-4:], rel=2e-2) for one in found)
    assert all(one == found[0] for one in found)
