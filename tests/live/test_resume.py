"""Keras' `fit`, unmodified, killed in the middle of an epoch: it ends as if nobody had touched it."""

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

PROGRAM = """
import os, sys, threading, keras, numpy as np
keras.utils.set_random_seed(7)
chance = np.random.default_rng(0)
images = chance.normal(size=(640, 20)).astype("float32")
labels = (images[:, :3].sum(1) > 0).astype("int32")
layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2), keras.layers.BatchNormalization()]
model = keras.Sequential([*layers, keras.layers.Dense(int(os.environ.get("WIDTH", "2")))])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
mark, step, number = os.environ["STOKER_JOB_DIR"] + "/mark", int(sys.argv[1]), int(sys.argv[2])
class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for thread in threading.enumerate():  # the steps are so short that a save would miss most of them
            if thread.name == "stoker-checkpoint":
                thread.join()
        mine = os.environ.get("STOKER_ROLE", "chief") == "chief"
        if mine and int(model.optimizer.iterations.numpy()) == step and not os.path.exists(mark):
            os.makedirs(os.path.dirname(mark), exist_ok=True)
            open(mark, "w").close()
            os.kill(os.getpid(), number)
for epochs in (2, 3):
    told = model.fit(images, labels, batch_size=32, epochs=epochs, verbose=0, callbacks=[Ends()], validation_split=0.2)
    print("epochs", told.epoch, "validated", len(told.history["val_loss"]))
print("weights", float(np.abs(model.get_weights()[0]).sum()), "steps", int(model.optimizer.iterations.numpy()))
"""
STEPS = 5 * 16
EPOCHS = """
import os, sys, time, keras, numpy as np
mark = os.environ["STOKER_JOB_DIR"] + "/mark"
class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 10
    def __getitem__(self, number):
        time.sleep(0.15)
        return np.ones((4, 3)), np.ones((4, 1))
class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(model.optimizer.iterations.numpy()) == int(sys.argv[1]) and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), int(sys.argv[2]))
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Batches(workers=2), epochs=4, verbose=0, callbacks=[Ends()])
print("steps", int(model.optimizer.iterations.numpy()))
"""
NUMBERED = """
import os, sys, threading, keras, numpy as np
keras.utils.set_random_seed(7)
mark = os.environ["STOKER_JOB_DIR"] + "/mark"
class Batches(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        chance = np.random.default_rng(0)
        self.images = chance.normal(size=(95, 5)).astype("float32")
        self.names, self.order = [f"image {number}" for number in range(95)], np.arange(95)
    def __len__(self):
        return 10
    def __getitem__(self, number):
        some = self.order[number * 10 : number * 10 + 10]
        assert all(self.names[place] == f"image {self.order[place]}" for place in range(95)), "what belongs together"
        return self.images[some], self.images[some].sum(1, keepdims=True)
    def on_epoch_end(self):
        order = np.random.permutation(95)
        self.order, self.names = self.order[order], [self.names[place] for place in order]
class Ends(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        Ends.steps += 1
        for thread in threading.enumerate():
            if thread.name == "stoker-checkpoint":
                thread.join()
        if Ends.steps == int(sys.argv[1]) and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), int(sys.argv[2]))
model = keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
told = model.fit(Batches(), epochs=5, verbose=0, callbacks=[Ends()], class_weight=None)
print(told.epoch, told.history)
print("weights", sum(float(np.abs(weights).sum()) for weights in model.get_weights()), "steps", int(model.optimizer.iterations))
"""
MUCH = """
import os, sys, threading, keras, numpy as np
keras.utils.set_random_seed(3)
chance = np.random.default_rng(0)
one, two = chance.normal(size=(640, 8)), chance.normal(size=(640, 4)).astype("float32")
labels = keras.utils.to_categorical((one[:, 0] + two[:, 0] > 0).astype(int), 2)
inputs = [keras.Input((8,), name="one"), keras.Input((4,), name="two")]
hidden = keras.layers.Dense(8, activation="relu")(keras.layers.Concatenate()(inputs))
model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(hidden))
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="categorical_crossentropy", metrics=[keras.metrics.F1Score()])
folder = os.environ["STOKER_JOB_DIR"]
os.makedirs(folder, exist_ok=True)
class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for thread in threading.enumerate():
            if thread.name == "stoker-checkpoint":
                thread.join()
        if int(model.optimizer.iterations.numpy()) == int(sys.argv[1]) and not os.path.exists(folder + "/mark"):
            open(folder + "/mark", "w").close()
            os.kill(os.getpid(), int(sys.argv[2]))
callbacks = [
    keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
    keras.callbacks.CSVLogger(folder + "/log.csv"),
    keras.callbacks.EarlyStopping(patience=9, monitor="val_loss", mode="max", restore_best_weights=True),
    keras.callbacks.ModelCheckpoint(folder + "/best.keras", save_best_only=True),
    keras.callbacks.BackupAndRestore(folder + "/backup"),
    Ends(),
]
told = model.fit(
    [one, two], labels, batch_size=32, epochs=4, verbose=0, callbacks=callbacks, class_weight={0: 1.0, 1: 3.0},
    validation_split=0.2,
)
print("best", min(told.history["val_loss"]) == callbacks[3].best, "rate", float(model.optimizer.learning_rate.numpy()))
print("logged", [line.split(",")[0] for line in open(folder + "/log.csv")][1:])
print("weights", float(np.abs(model.get_weights()[0]).sum()), "steps", int(model.optimizer.iterations.numpy()))
"""
"""Several inputs, weights of classes, and callbacks that remember."""

_DATASET = """
import tensorflow as tf
kind = os.environ["KIND"]
train = tf.data.Dataset.from_tensor_slices((images[:500], labels[:500])).shuffle(500)
train = train.filter(lambda image, label: image[5] > -1.0) if kind == "length not known" else train
train = train.batch(32)
train = train.cache().shuffle(4) if kind == "cached" else train
train = train.repeat() if kind == "endless" else train
def from_python():
    chance = np.random.default_rng(1)
    while True:
        some = chance.integers(0, 500, 32)
        yield images[some], labels[some]
if kind == "generator":
    model.build((None, 20))
    train = from_python()
steps = 10 if kind in ("endless", "generator") else None
held_out = tf.data.Dataset.from_tensor_slices((images[500:], labels[500:])).batch(32)
for epochs in (3, 4) if kind != "generator" else (5,):
    told = model.fit(
        train, epochs=epochs, verbose=0, callbacks=[Ends()], validation_data=held_out, steps_per_epoch=steps
    )
"""
DATASET = re.sub(r"for epochs in .*?(?=print\(.weights)", lambda _: _DATASET, PROGRAM, flags=re.DOTALL)
"""The same model, which reads a pipeline that shuffles anew for each pass."""


def results(output: str) -> list[tuple[float, int]]:
    return [(float(w), int(n)) for w, n in re.findall(r"weights ([\d.]+) steps (\d+)", output)]


def a_killed_chief_changes_nothing(
    server: Server, folder: Path, name: str, step: int, *flags: str, replicas: int
) -> None:
    """Run the folder's program twice, and kill its chief at that step of the second: all replicas end with the same weights."""
    found = []
    for which, kill_at in (("untouched", 0), ("killed", step)):
        job = f"{name}_{which}"
        how = (f"--name={job}", "--distribute=auto", "--checkpoints=0.001s", f"--job-dir=gs://out/{job}", *flags)
        done = server.cli("run", *how, "--", "python", "program.py", str(kill_at), "9", cwd=folder, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(results(done.stdout))
    assert found[0] == found[1] and len(set(found[0])) == 1 and len(found[0]) == replicas
    assert len(server.client.details("local", f"{name}_killed")["attempts"]) == 2


class Runs:
    """Runs the program with the hooks, in a folder of its own."""

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        self.folder, self.program = folder, program
        self.hooks = f"{build(str(folder / 'cache'))}/{HOOKS}"

    def __call__(self, step: int, number: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        told = {
            "STOKER_CHECKPOINTS": "0.001",
            "STOKER_JOB_DIR": str(self.folder / "job"),
            "STOKER_CHECKPOINT_DIR": str(self.folder / "job/checkpoints"),
            "PYTHONPATH": self.hooks,
        }
        self.folder.mkdir(exist_ok=True)
        (self.folder / "program.py").write_text(self.program)
        return subprocess.run(
            [sys.executable, "program.py", str(step), str(number)],
            cwd=self.folder, env={**os.environ, **told, **variables}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, int]:
    """What it comes to when nobody touches it."""
    done = Runs(tmp_path_factory.mktemp("untouched"))(0)
    assert done.returncode == 0, done.stderr
    (found,) = results(done.stdout)
    assert found[1] == STEPS
    return found


@pytest.mark.campaign
@pytest.mark.proves("Keras 3 on TensorFlow, `fit`", "Goes on after a kill", "at the same batch, bit-equal, unchanged")
@pytest.mark.parametrize("step", [21, 53])
def test_killed_in_the_middle_of_an_epoch(run: Runs, untouched: tuple[float, int], step: int) -> None:
    """In the first call of `fit`, and in the second."""
    assert run(step, signal.SIGKILL).returncode == -signal.SIGKILL
    done = run(step, signal.SIGKILL)
    assert done.returncode == 0 and results(done.stdout) == [untouched], "bit by bit"
    assert re.search(r"stoker: goes on at step \d+: epoch \d+, \d+ examples into it", done.stderr)
    assert "epochs [0, 1] validated 2" in done.stdout and "epochs [0, 1, 2] validated 3" in done.stdout


@pytest.mark.campaign
def test_told_to_stop_it_saves_and_says_so_by_its_exit_code(run: Runs, untouched: tuple[float, int]) -> None:
    """Also where it would not have been time to save."""
    assert run(21, signal.SIGTERM, STOKER_CHECKPOINTS="3600").returncode == 143
    done = run(21, signal.SIGTERM)
    assert "goes on at step 21: epoch 2, 160 examples into it" in done.stderr
    assert results(done.stdout) == [untouched]


@pytest.mark.campaign
def test_a_checkpoint_of_another_model_is_refused(run: Runs) -> None:
    run(21, signal.SIGKILL)
    done = run(21, signal.SIGKILL, WIDTH="3")
    assert done.returncode == 1 and re.search(
        r"the checkpoint of step \d+ is of another model: where it has \S+ \(16, 2\), the program has \(16, 3\); "
        r"give another --job-dir, or delete ",
        done.stderr,
    )


@pytest.mark.campaign
def test_without_a_place_for_them_it_is_refused(run: Runs) -> None:
    done = run(0, STOKER_CHECKPOINT_DIR="")
    assert done.returncode == 1 and "--checkpoints has nowhere to write: the job has no directory" in done.stderr


@pytest.mark.campaign
def test_with_several_inputs_weights_of_classes_and_callbacks_that_remember(tmp_path: Path) -> None:
    whole = Runs(tmp_path / "whole", MUCH)(0)
    run = Runs(tmp_path / "killed", MUCH)
    assert run(40, signal.SIGKILL).returncode == -signal.SIGKILL
    done = run(40, signal.SIGKILL)
    assert done.returncode == 0 and results(done.stdout) == results(whole.stdout) != [], done.stderr
    assert done.stdout == whole.stdout and "best True" in done.stdout and "logged ['0', '1', '2', '3']" in done.stdout


MADE_OF_OTHERS = """
import os, sys, threading, keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(3)
class Pair(keras.Model):
    def __init__(self):
        super().__init__()
        layers = keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(3)
        self.maker = keras.Sequential([keras.Input((3,)), *layers])
        self.judge = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    def compile(self, optimizer_maker, optimizer_judge):
        super().compile()
        self.optimizer_maker, self.optimizer_judge = optimizer_maker, optimizer_judge
    def train_step(self, data):
        for model, optimizer, sign in ((self.judge, self.optimizer_judge, 1.0), (self.maker, self.optimizer_maker, -1.0)):
            with tf.GradientTape() as tape:
                loss = sign * tf.reduce_mean(tf.square(self.judge(self.maker(data, training=True)) - 1.0))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
        return {"loss": loss}
pair, mark = Pair(), os.environ["STOKER_JOB_DIR"] + "/mark"
pair.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.01))
class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for thread in threading.enumerate():
            if thread.name == "stoker-checkpoint":
                thread.join()
        if int(pair.optimizer_judge.iterations.numpy()) == int(sys.argv[1]) and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), int(sys.argv[2]))
pair.fit(np.random.default_rng(0).normal(size=(64, 3)).astype("float32"), batch_size=8, epochs=3, verbose=0, callbacks=[Ends()])
print("weights", sum(float(np.abs(w).sum()) for w in pair.get_weights()), "steps", int(pair.optimizer_maker.iterations.numpy()))
"""


@pytest.mark.campaign
def test_a_model_that_is_made_of_others(tmp_path: Path) -> None:
    """It is never called itself: its optimizers are built for the parts that they are named after."""
    whole = Runs(tmp_path / "whole", MADE_OF_OTHERS)(0)
    run = Runs(tmp_path / "killed", MADE_OF_OTHERS)
    assert run(13, signal.SIGKILL).returncode == -signal.SIGKILL
    done = run(13, signal.SIGKILL)
    assert done.returncode == 0 and done.stdout == whole.stdout and results(done.stdout)[0][1] == 24, done.stderr
    assert "goes on at step 12: epoch 2, 32 examples into it" in done.stderr


@pytest.mark.campaign
def test_a_program_that_names_both_kinds_of_keras(run: Runs, untouched: tuple[float, int]) -> None:
    run.program = PROGRAM.replace("keras, numpy", "numpy")
    run.program = "try:\n    import keras\nexcept ImportError:\n    import tf_keras as keras\n" + run.program
    assert run(21, signal.SIGKILL).returncode == -signal.SIGKILL
    done = run(21, signal.SIGKILL)
    assert results(done.stdout) == [untouched] and "goes on at step " in done.stderr


@pytest.mark.campaign
def test_what_cannot_be_entered_in_its_middle_is_saved_after_each_epoch(tmp_path: Path) -> None:
    run = Runs(tmp_path, EPOCHS)
    assert run(25, signal.SIGKILL, STOKER_CHECKPOINTS="auto").returncode == -signal.SIGKILL
    done = run(25, signal.SIGKILL, STOKER_CHECKPOINTS="auto")
    assert done.returncode == 0 and "goes on at step 20: epoch 3, from its beginning" in done.stderr, done.stderr
    assert "steps 40" in done.stdout


@pytest.mark.campaign
@pytest.mark.parametrize(("backend", "step"), [("tensorflow", 23), ("torch", 38)])
def test_batches_with_numbers_are_entered_where_they_were(tmp_path: Path, backend: str, step: int) -> None:
    """They shuffle themselves at the end of an epoch, and Keras shuffles their numbers."""
    whole = Runs(tmp_path / "whole", NUMBERED)(0, KERAS_BACKEND=backend)
    run = Runs(tmp_path / "killed", NUMBERED)
    assert run(step, signal.SIGKILL, KERAS_BACKEND=backend).returncode == -signal.SIGKILL
    done = run(step, signal.SIGKILL, KERAS_BACKEND=backend)
    assert done.returncode == 0 and done.stdout == whole.stdout and results(done.stdout), whole.stderr + done.stderr
    assert re.search(r"goes on at step \d+: epoch \d, [1-9]\d* batches into it", done.stderr)


@pytest.mark.campaign
@pytest.mark.proves("Keras 3 on TensorFlow, `fit`", "Goes on after a kill", "also a `tf.data` pipeline")
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *(("finite", 23), ("finite", 61), ("cached", 23), ("cached", 61), ("endless", 23)),
        *(("length not known", 23), ("length not known", 65), ("generator", 23)),
    ],
)
def test_a_pipeline_is_entered_where_it_was(tmp_path: Path, kind: str, step: int) -> None:
    """In the first call of `fit`, and in the second: in the order that the interrupted pass had, and those after it."""
    whole = Runs(tmp_path / "whole", DATASET)(0, KIND=kind)
    run = Runs(tmp_path / "killed", DATASET)
    assert run(step, signal.SIGKILL, KIND=kind).returncode == -signal.SIGKILL
    done = run(step, signal.SIGKILL, KIND=kind)
    assert done.returncode == 0 and results(done.stdout) == results(whole.stdout) != [], done.stderr
    assert re.search(r"goes on at step \d+: epoch \d, [1-9]\d* steps into it", done.stderr)


@pytest.mark.campaign
@pytest.mark.parametrize(("data", "program"), [("arrays", PROGRAM), ("pipeline", DATASET)], ids=["arrays", "pipeline"])
def test_three_workers_whose_chief_is_killed(server: Server, tmp_path: Path, data: str, program: str) -> None:
    kind = "os.environ['KIND'] = 'finite'\n"
    (tmp_path / "program.py").write_text(program.replace("import tensorflow", kind + "import tensorflow"))
    a_killed_chief_changes_nothing(server, tmp_path, data, 11, "--workers=2", replicas=3)


@pytest.mark.campaign
def test_a_checkpoint_of_another_optimizer_is_refused(run: Runs) -> None:
    run(21, signal.SIGKILL)
    run.program = run.program.replace("optimizers.Adam(0.01)", "optimizers.AdamW(0.01)")
    done = run(21, signal.SIGKILL)
    assert done.returncode == 1 and "it was trained by Adam, the program has AdamW" in done.stderr


@pytest.mark.campaign
def test_steps_are_counted_where_losses_are_scaled(tmp_path: Path) -> None:
    program = PROGRAM.replace(
        "keras.utils.set", "keras.mixed_precision.set_global_policy('mixed_float16')\nkeras.utils.set"
    )
    whole = Runs(tmp_path / "whole", program)(0)
    run = Runs(tmp_path / "killed", program)
    assert run(21, signal.SIGKILL).returncode == -signal.SIGKILL
    done = run(21, signal.SIGKILL)
    assert re.search(r"goes on at step [12]\d: ", done.stderr) and results(done.stdout) == results(whole.stdout) != []
