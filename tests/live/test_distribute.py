"""Programs for one device, unmodified, on several: they train as one process with the whole batch would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = pytest.mark.live
EXAMPLE = Path(__file__).parents[2] / "examples/one_device"
FLAGS = ("--fake=1x2xT4",)

KERAS = """
import os, sys, keras, numpy as np
keras.utils.set_random_seed(7)
images = np.random.default_rng(0).normal(size=(640, 20)).astype("float32")
labels = (images[:, :3].sum(1) > 0).astype("int32")
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
model.fit(images, labels, batch_size=int(sys.argv[1]), epochs=2, verbose=2, validation_data=(images, labels))
print("weights", float(np.abs(model.get_weights()[0]).sum()), "steps", int(model.optimizer.iterations))
os.makedirs(os.environ["STOKER_JOB_DIR"], exist_ok=True)
model.save(os.environ["STOKER_JOB_DIR"] + "/model.keras")
"""
TF_KERAS = KERAS.replace("import os, sys, keras,", "import os, sys, tf_keras as keras,").replace(
    "model.optimizer.iterations", "model.optimizer.iterations.numpy()"
)
TORCH = """
import os, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(7 + int(os.environ.get("RANK", "0")))
chance = torch.Generator().manual_seed(0)
images = torch.randn(640, 20, generator=chance)
data = TensorDataset(images, (images[:, :3].sum(1) > 0).long())
train = DataLoader(data, batch_size=int(sys.argv[1]))
model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
steps = 0
for epoch in range(2):
    model.train()
    for batch, labels in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        steps += 1
    model.eval()
    with torch.no_grad():
        print("seen", sum(len(labels) for _, labels in train))
print("weights", float(model[0].weight.detach().abs().sum()), "steps", steps)
os.makedirs(os.environ["STOKER_JOB_DIR"], exist_ok=True)
torch.save(model.state_dict(), os.environ["STOKER_JOB_DIR"] + f"/model-{os.environ.get('RANK', '0')}.pt")
"""
OWN = """
import torch.distributed as dist
dist.init_process_group("gloo")
print("size", dist.get_world_size())
dist.destroy_process_group()
"""
NO_LOADER = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 2)).sum().backward()
optimizer.step()
"""
TWO_MODELS = """
import os, random, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
data = TensorDataset(torch.randn(640, 4, generator=torch.Generator().manual_seed(0)))
train, held_out = random_split(data, [512, 128])
print("drawn", train.indices[:4], random.random(), list({"cat", "dog", "owl"}))
train, held_out = DataLoader(train, batch_size=32, shuffle=True), DataLoader(held_out, batch_size=64)
judge, maker = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), nn.Linear(4, 4)
teacher = nn.Linear(4, 1)
of_judge, of_maker = (torch.optim.Adam(model.parameters(), lr=0.01) for model in (judge, maker))
slower = torch.optim.lr_scheduler.ReduceLROnPlateau(of_judge, patience=0)
for epoch in range(3):
    judge.train(), maker.train(), teacher.eval()
    for (batch,) in train:
        for model, optimizer, loss in (
            (judge, of_judge, lambda: judge(batch).mean() - judge(maker(batch).detach()).mean()),
            (maker, of_maker, lambda: judge(maker(batch)).mean()),
        ):
            optimizer.zero_grad()
            loss().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    judge.eval()
    with torch.no_grad():
        value = sum(judge(batch).sum().item() for (batch,) in held_out)
    slower.step(value)
    print("batches", len(train), len(held_out), "value", round(value, 4))
path = os.environ["STOKER_JOB_DIR"] + "/judge.pt"
os.makedirs(os.path.dirname(path), exist_ok=True)
torch.save(judge.state_dict(), path)
judge.load_state_dict(torch.load(path))
print("weights", float(judge[0].weight.abs().sum()), "steps", int(1e9 * of_judge.param_groups[0]["lr"]))
"""
NEVER_TRAINS_AGAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(40):
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    model.eval()
"""
SERVED = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tf_keras as keras, numpy as np, tensorflow as tf
from tf_keras.layers import Dense, Flatten
chance = np.random.default_rng(0)
one, two = chance.normal(size=(300, 2, 2)).astype("float32"), chance.normal(size=(300, 3)).astype("float32")
labels = (one.sum((1, 2)) > 0).astype("float32").reshape(-1, 1)
unbuilt = keras.Sequential([Flatten(), Dense(1, activation="sigmoid")])
unbuilt.compile("adam", lambda wanted, found: keras.losses.binary_crossentropy(wanted, found), metrics=["accuracy"])
unbuilt.fit(one, labels, epochs=1, verbose=1, validation_data=(one, labels))
print("unbuilt", len(unbuilt.evaluate(one, labels, verbose=1)))
first, second = keras.Input((2, 2)), keras.Input((3,))
both = keras.Model([first, second], Dense(1, activation="sigmoid")(keras.layers.concatenate([Flatten()(first), second])))
both.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
both.fit([one, two], labels, epochs=20, verbose=0, validation_data=([one, two], labels))
print("inputs", both.evaluate([one, two], labels, verbose=0)[1] > 0.8)
data = tf.data.Dataset.from_tensor_slices((one, labels)).batch(30)
unbuilt.fit(data, epochs=2, verbose=0, validation_data=data.repeat(), validation_steps=4)
print("datasets", int(unbuilt.optimizer.iterations.numpy()))
try:
    unbuilt.predict(one)
except SystemExit:
    print("no predict")
"""
JAX = """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
mesh = jax.make_mesh((2,), ("x",))
mine = jnp.array([jax.process_index() + 1.0])
ours = jax.make_array_from_process_local_data(jax.NamedSharding(mesh, P("x")), mine)
total = jax.jit(jnp.sum, out_shardings=jax.NamedSharding(mesh, P()))(ours)
print("sum", float(total), "of", jax.device_count(), "devices")
"""
HALF = """
import torch
layer = torch.nn.Linear(2, 1)
print("computes in", layer(torch.ones(1, 2)).dtype, "keeps", layer.weight.dtype)
"""


def run(server: Server, folder: Path, *flags: str, command: tuple[str, ...], code: int = 0) -> str:
    """What a job of this folder has printed, each line with its replica."""
    done = server.cli("run", *flags, "--", "python", *command, cwd=folder, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(output: str) -> list[tuple[float, int]]:
    """The weights and steps that each replica has told."""
    return [(float(w), int(n)) for w, n in re.findall(r"weights ([\d.]+) steps (\d+)", output)]


def alone(tmp_path: Path, program: str, batch: int) -> tuple[float, int]:
    """What the program comes to without Stoker, on one device."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(batch)],
        env={**os.environ, "STOKER_JOB_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    (found,) = results(done.stdout)
    return found


@pytest.mark.proves("Keras 3 on TensorFlow, `fit`", "Several replicas", "MultiWorkerMirroredStrategy, with Keras 3.15")
@pytest.mark.proves("A PyTorch loop with a `DataLoader`", "Several replicas", "averaged gradients")
@pytest.mark.parametrize("script", ["keras_train.py", pytest.param("torch_train.py", marks=pytest.mark.campaign)])
def test_the_example_on_two_processes(server: Server, script: str) -> None:
    output = run(server, EXAMPLE, "--workers=1", "--distribute=auto", command=(script,))
    way = "MultiWorkerMirroredStrategy" if script.startswith("keras") else "averaged gradients"
    assert f"stoker: trains in step on 2 replicas ({way}), 24 examples each, 48 together" in output
    ((accuracy, steps), *others) = re.findall(r"accuracy ([\d.]+) after (\d+) steps", output)
    assert float(accuracy) > 0.85 and steps == "150" and others == [(accuracy, "150")], output


@pytest.mark.proves("Keras 3 on TensorFlow, `fit`", "One machine, several GPUs", "MirroredStrategy")
def test_keras_on_the_devices_of_one_machine_is_keras_on_one_with_the_whole_batch(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(KERAS)
    flags = ("--rehearse", "--gpus=2", "--distribute=auto", "--job-dir=gs://out/keras")
    output = run(server, tmp_path, *flags, command=("program.py", "32"))
    assert "trains in step on 2 replicas (MirroredStrategy), 32 examples each, 64 together" in output
    ((weights, steps),) = results(output)
    expected, _ = alone(tmp_path, KERAS, 64)
    assert weights == pytest.approx(expected, rel=1e-4) and steps == 20


@pytest.mark.proves("A PyTorch loop with a `DataLoader`", "One machine, several GPUs", "a process for each")
@pytest.mark.parametrize(
    "flags",
    [("--workers=1",), pytest.param(("--rehearse", "--gpus=2"), marks=pytest.mark.campaign)],
    ids=["workers", "gpus"],
)
def test_torch_on_two_processes_is_torch_on_one_with_the_whole_batch(
    server: Server, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "program.py").write_text(TORCH)
    output = run(server, tmp_path, *flags, "--distribute=ddp", "--job-dir=gs://out/torch", command=("program.py", "32"))
    found = results(output)
    expected = alone(tmp_path, TORCH, 64)
    printing = 1 if "--rehearse" in flags else 2  # of a machine's processes the first alone prints
    assert len(found) == printing and len(set(found)) == 1
    assert found[0][1] == expected[1] == 20 and found[0][0] == pytest.approx(expected[0], rel=1e-6)
    assert output.count("seen 640") == 2 * printing, "evaluation reads all of it"
    assert "trains in step on 2 replicas (averaged gradients), 32 examples each, 64 together" in output
    assert [path.name for path in (server.home / "buckets/gs/out/torch").glob("*.pt")] == ["model-0.pt"], (
        "the chief alone writes"
    )


@pytest.mark.campaign
@pytest.mark.proves("tf_keras, `fit`", "Several replicas", "MultiWorkerMirroredStrategy")
@pytest.mark.proves("tf_keras, `fit`", "One machine, several GPUs", "MirroredStrategy")
@pytest.mark.parametrize("flags", [("--workers=1",), ("--rehearse", "--gpus=2")], ids=["workers", "gpus"])
def test_tf_keras_is_tf_keras_on_one_with_the_whole_batch(
    server: Server, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "program.py").write_text(TF_KERAS)
    output = run(server, tmp_path, *flags, "--distribute=auto", "--job-dir=gs://out/old", command=("program.py", "32"))
    assert "Strategy), 32 examples each, 64 together" in output
    expected, steps = alone(tmp_path, TF_KERAS, 64)
    found = results(output)
    assert len(found) == (1 if "--rehearse" in flags else 2) and steps == 20
    assert all(told == (pytest.approx(expected, rel=1e-4), 20) for told in found)


@pytest.mark.campaign
def test_what_scripts_do_with_tf_keras_they_do_with_parameter_servers(server: Server, tmp_path: Path) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(SERVED)
    (tmp_path / "config.yaml").write_text(
        "trainingInput: {scaleTier: CUSTOM, masterType: n1-standard-4, workerType: n1-standard-4, workerCount: 2,"
        " parameterServerType: n1-standard-4, parameterServerCount: 1, region: us-central1}"
    )
    done = server.cli(
        *("jobs", "submit", "training", "served", "--package-path=trainer", "--module-name=trainer.task"),
        *("--config=config.yaml", "--staging-bucket=gs://stage", "--distribute=ps", "--stream-logs"),
        cwd=tmp_path,
        timeout=240,
    )
    output = done.stdout + done.stderr
    for line in ("unbuilt 2", "inputs True", "datasets 30", "no predict"):
        assert line in output, output


@pytest.mark.campaign
@pytest.mark.proves("Keras 3 on JAX, `fit`", "Several replicas", "DataParallel")
@pytest.mark.proves("Keras 3 on JAX, `fit`", "One machine, several GPUs", "DataParallel")
@pytest.mark.parametrize("batches", ["arrays", "dataset"])
@pytest.mark.parametrize("flags", [("--workers=1",), ("--rehearse", "--gpus=2")], ids=["workers", "gpus"])
def test_keras_on_jax_is_keras_on_one_with_the_whole_batch(
    server: Server, tmp_path: Path, batches: str, flags: tuple[str, ...]
) -> None:
    program = 'import os\nos.environ["KERAS_BACKEND"] = "jax"\n' + KERAS.replace(
        "epochs=2,", "epochs=2, shuffle=False,"
    )
    program = program.replace(
        'print("weights"', 'print("predicted", model.predict(images[:37], verbose=0).shape)\nprint("weights"'
    )
    if batches == "dataset":
        program = program.replace(
            "model.fit(images, labels, batch_size=int(sys.argv[1]), epochs=2, shuffle=False,",
            "import tensorflow as tf\n"
            "model.fit(tf.data.Dataset.from_tensor_slices((images, labels)).batch(int(sys.argv[1])), epochs=2,",
        )
    (tmp_path / "program.py").write_text(program)
    output = run(server, tmp_path, *flags, "--distribute=auto", "--job-dir=gs://out/jax", command=("program.py", "32"))
    assert "trains in step on 2 replicas (DataParallel), 32 examples each, 64 together" in output
    expected, _ = alone(tmp_path, program, 64)
    printing = 1 if "--rehearse" in flags else 2
    assert results(output) == [(pytest.approx(expected, rel=1e-4), 20)] * printing
    assert output.count("predicted (37, 2)") == printing
    assert (server.home / "buckets/gs/out/jax/model.keras").exists()


@pytest.mark.campaign
def test_two_torch_models_that_train_against_each_other_stay_in_step(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TWO_MODELS)
    flags = ("--workers=1", "--distribute=auto", "--job-dir=gs://out/two")
    output = run(server, tmp_path, *flags, command=("program.py",))
    (one, other) = results(output)
    assert one == other, "after clipping, BatchNorm, a teacher, and a rate that follows what was measured"
    assert len(set(re.findall(r"drawn (.*)", output))) == 1, "the same chance"
    assert output.count("batches 8 2 value") == 6 and len(set(re.findall(r"value (.*)", output))) == 3


@pytest.mark.campaign
def test_torch_that_trains_in_evaluation_mode_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(NEVER_TRAINS_AGAIN)
    output = run(server, tmp_path, "--workers=1", "--distribute=auto", command=("program.py",), code=1)
    assert "the model is told to evaluate (model.eval()) and trained" in output and "call model.train()" in output


@pytest.mark.proves(
    "JAX, a loop of its own", "Several replicas", "processes that have met; arrays are the program's affair"
)
def test_jax_on_two_processes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(JAX)
    output = run(server, tmp_path, "--workers=1", "--distribute=auto", command=("program.py",))
    assert "stoker: 2 processes have met (jax.distributed): 2 devices" in output
    assert output.count("sum 3.0 of 2 devices") == 2


@pytest.mark.proves(
    "A program that distributes itself", "Several replicas", "left as it is, with the variables of its cluster"
)
def test_a_program_that_distributes_itself_is_left_as_it_is(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(OWN)
    output = run(server, tmp_path, "--workers=1", "--distribute=auto", command=("program.py",))
    assert "left as it is: the program distributes itself (init_process_group, line 3 of " in output
    assert output.count("size 2") == 2


@pytest.mark.proves(
    "A program that distributes itself", "One machine, several GPUs", "a process for each, as torchrun does"
)
def test_a_program_of_torchrun_has_a_process_for_each_gpu(server: Server, tmp_path: Path) -> None:
    program = OWN.replace('print("size"', 'import os; print("rank", os.environ["LOCAL_RANK"], "size"')
    (tmp_path / "program.py").write_text(program)
    output = run(server, tmp_path, "--rehearse", "--gpus=2", "--distribute=ddp", command=("program.py",))
    assert "stoker: starts 2 processes on each machine, one for each GPU" in output and "rank 0 size 2" in output


@pytest.mark.campaign
def test_keras_on_jax_with_data_that_cannot_be_shared_out_evenly(server: Server, tmp_path: Path) -> None:
    program = 'import os\nos.environ["KERAS_BACKEND"] = "jax"\n' + KERAS.replace("size=(640, 20)", "size=(65, 20)")
    program = program.replace(
        'print("weights"', 'print("loss", model.evaluate(images, labels, verbose=0) > 0)\nprint("weights"'
    )
    (tmp_path / "program.py").write_text(program)
    flags = ("--rehearse", "--gpus=2", "--distribute=auto", "--job-dir=gs://out/uneven")
    output = run(server, tmp_path, *flags, command=("program.py", "16"))
    assert "loss True" in output and results(output)[0][1] == 6


GROWN = """
import os
import torch
from stoker import checkpoint
os.makedirs("seen", exist_ok=True)
class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=0.01)
    def train(self, batch):
        self.optimizer.zero_grad()
        self.model(batch).sum().backward()
        self.optimizer.step()
trainer = Trainer(torch.nn.Linear(4, 1))
loader = torch.utils.data.DataLoader(torch.ones(64000, 4), batch_size=8)
state = checkpoint.State(model=trainer.model, optimizer=trainer.optimizer)
state.restore()
print("begins at", state.step)
for batch in state.batches(loader):
    trainer.train(batch)
    open(f"seen/{os.environ['RANK']}-{os.getpid()}", "w").close()
    if state.step == 200 and os.environ["RANK"] == "0" and os.environ["STOKER_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), 15)
    if state.step == 400:
        break
print("ends at", state.step, "of", os.environ["WORLD_SIZE"], len(os.listdir("seen")))
"""


@pytest.mark.campaign
def test_told_to_stop_its_processes_save_together(server: Server, tmp_path: Path) -> None:
    """A script with a Trainer of its own, as a module, told to stop: it is saved, and goes on."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/__init__.py").touch()
    (tmp_path / "trainer/task.py").write_text(GROWN)
    flags = ("--rehearse", "--gpus=2", "--distribute=auto", "--job-dir=gs://out/grown")
    output = run(server, tmp_path, *flags, command=("-m", "trainer.task"))
    assert "trains in step on 2 replicas (averaged gradients)" in output
    begun = [int(step) for step in re.findall(r"begins at (\d+)", output)]
    assert begun[0] == 0 and 200 <= begun[1] < 400 and "ends at 400 of 2" in output, output


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.campaign), 1])
def test_the_first_process_that_fails_ends_all(server: Server, tmp_path: Path, rank: int) -> None:
    fails = f'if os.environ["RANK"] == "{rank}" and epoch: raise ValueError("no more")\n    model.train()'
    (tmp_path / "program.py").write_text(TORCH.replace("model.train()", fails))
    flags = ("--rehearse", "--gpus=2", "--distribute=ddp", "--job-dir=gs://out/fails")
    output = run(server, tmp_path, *flags, command=("program.py", "32"), code=1)
    assert "ValueError: no more" in output and "steps 20" not in output


def test_what_would_train_twice_the_same_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(NO_LOADER)
    output = run(server, tmp_path, "--workers=1", "--distribute=auto", command=("program.py",), code=1)
    assert "all 2 processes read the same data: the program uses no torch.utils.data.DataLoader" in output


def test_what_cannot_be_verified_is_no_success(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('no framework here')\n")
    output = run(server, tmp_path, "--workers=1", "--distribute=auto", command=("program.py",), code=1)
    assert "NOT_DISTRIBUTED" in output and "leave --distribute out" in output
    assert "nothing tells how it trained: no step of Keras or PyTorch was seen (--distribute auto)" in output


@pytest.mark.campaign
def test_precision_without_a_change(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(HALF)
    output = run(server, tmp_path, "--precision=bf16", command=("program.py",))
    assert "computes in torch.bfloat16 keeps torch.float32" in output
    refused = run(server, tmp_path, "--precision=fp16", command=("program.py",), code=1)
    assert "PyTorch trains in fp16 only with a GradScaler in the program; use --precision bf16" in refused
    (tmp_path / "keras_program.py").write_text("import keras\nprint('policy', keras.config.dtype_policy().name)\n")
    assert "policy mixed_bfloat16" in run(server, tmp_path, "--precision=bf16", command=("keras_program.py",))


@pytest.mark.campaign
def test_it_is_asked_for_by_a_label_too(server: Server, tmp_path: Path) -> None:
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    (trainer / "__init__.py").touch()
    (trainer / "task.py").write_text(OWN)
    (tmp_path / "job.json").write_text(json.dumps({"labels": {"stoker-distribute": "auto"}}))
    done = server.cli(
        *("jobs", "submit", "training", "labelled", "--package-path", str(trainer), "--module-name", "trainer.task"),
        *("--config", str(tmp_path / "job.json"), "--region", "us-central1", "--scale-tier", "custom"),
        *("--master-machine-type", "n1-standard-4", "--worker-machine-type", "n1-standard-4", "--worker-count", "1"),
        "--stream-logs",
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "left as it is: the program distributes itself" in output, output


@pytest.mark.campaign
def test_numbers_that_are_none_are_no_training_apart(server: Server, tmp_path: Path) -> None:
    """A loss that has grown beyond all bounds is to be found as that, not as replicas that have parted."""
    (tmp_path / "program.py").write_text(TORCH.replace("lr=0.01", "lr=1e30"))
    flags = ("--workers=1", "--distribute=ddp", "--job-dir=gs://out/huge")
    output = run(server, tmp_path, *flags, command=("program.py", "1"))
    assert "trains in step on 2 replicas" in output and "training uses" not in output


@pytest.mark.campaign
def test_the_learning_rate_of_a_torch_loop_grows_with_its_replicas(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TORCH)
    flags = ("--workers=1", "--distribute=ddp", "--learning-rate-rule=linear", "--job-dir=gs://out/rate")
    output = run(server, tmp_path, *flags, command=("program.py", "32"))
    assert "64 together; learning rate 0.01 -> 0.02 (linear)" in output


@pytest.mark.campaign
@pytest.mark.parametrize("program", ["torch", "keras"])
def test_where_replicas_train_each_by_itself_that_is_said(server: Server, tmp_path: Path, program: str) -> None:
    (tmp_path / "program.py").write_text(TORCH if program == "torch" else KERAS)
    command, flags = ("program.py", "32"), ("--workers=1", f"--job-dir=gs://out/alone_{program}")
    said = "asked for 2 replicas, and this program trains on 1: with --distribute auto it may train on all of them"
    assert run(server, tmp_path, *flags, command=command).count(said) == 1
    assert said not in run(server, tmp_path, *flags, "--distribute=auto", command=command)
