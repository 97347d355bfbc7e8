"""The examples, for real: TensorFlow, PyTorch and JAX as clusters of processes on this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = [pytest.mark.live, pytest.mark.campaign]
EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = ("--fake=2x2xT4",)


def submit(server: Server, name: str, example: str, *flags: str, args: tuple[str, ...] = ()) -> tuple[int, str]:
    """Submit an example as its README says, and wait for its end. Returns exit code and output."""
    folder = EXAMPLES / example
    done = server.cli(
        *("jobs", "submit", "training", name, "--package-path", str(folder / "trainer")),
        *("--module-name", "trainer.task", "--config", str(folder / "config.yaml")),
        *("--job-dir", f"gs://examples/{name}", "--stream-logs", *flags, "--", *args),
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


def job_dir(server: Server, name: str) -> Path:
    return server.home / "buckets/gs/examples" / name


def test_tensorflow_multi_worker_trains_a_real_classifier(server: Server) -> None:
    code, output = submit(server, "digits", "digits", args=("--epochs", "8"))
    assert code == 0, output
    metrics = json.loads((job_dir(server, "digits") / "metrics.json").read_text())
    assert metrics["accuracy"] > 0.9 and metrics["replicas"] == 2
    assert (job_dir(server, "digits") / "model/saved_model.pb").exists()
    assert list((job_dir(server, "digits") / "checkpoints").glob("ckpt-*.index"))
    assert "chief-0" in output and "worker-0" in output


def test_a_second_run_goes_on_from_the_checkpoint(server: Server) -> None:
    folder = EXAMPLES / "digits"
    done = server.cli(
        *("jobs", "submit", "training", "digits_more", "--package-path", str(folder / "trainer")),
        *("--module-name", "trainer.task", "--config", str(folder / "config.yaml")),
        *("--job-dir", "gs://examples/digits", "--stream-logs", "--", "--epochs", "9"),
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "epoch 9/9" in done.stdout and "epoch 8/9" not in done.stdout


@pytest.mark.proves("A program that distributes itself", "One machine, several GPUs", "left as it is")
def test_mirrored_strategy_over_the_devices_of_one_machine(server: Server) -> None:
    code, output = submit(server, "mirrored", "mirrored")
    assert code == 0, output
    assert "num_replicas_in_sync: 2" in output


@pytest.mark.proves(
    "A program that distributes itself", "Parameter servers", "left as it is; they are stopped when the chief ends"
)
def test_parameter_servers_are_stopped_when_the_chief_ends(server: Server) -> None:
    code, output = submit(server, "ps", "parameter_server")
    assert code == 0, output
    details = server.client.details("local", "ps")
    states = {r["name"]: r["state"] for r in details["attempts"][-1]["replicas"]}
    assert states["chief-0"] == "SUCCEEDED" and states["ps-0"] == "FAILED", "it was stopped, as it never ends by itself"


@pytest.mark.proves("tf_keras, `fit`", "Parameter servers", "ParameterServerStrategy: the chief runs the script")
def test_a_tf_keras_script_for_one_device_with_parameter_servers(server: Server) -> None:
    code, output = submit(server, "served", "tf_keras_servers", "--distribute=auto")
    assert code == 0, output
    said = "trains on 2 workers, each at its own pace (ParameterServerStrategy, 1 parameter server), 32 examples a step"
    assert said in output and output.count("Epoch 1/8") == 1, "the chief alone runs it"
    ((accuracy, steps),) = re.findall(r"accuracy ([\d.]+) after (\d+) steps", output)
    assert float(accuracy) > 0.8 and steps == "360"
    (chief,) = server.client.steps("local", "served")["replicas"]
    assert chief["epoch_steps"] == 45 and chief["values"]["accuracy"] > 0.9, "no worker tells of steps"


@pytest.mark.parametrize("example", ["torch_ddp", "jax_data_parallel"])
def test_a_plain_script_as_two_processes(server: Server, example: str) -> None:
    done = server.cli("run", "--workers", "1", "--", "python", "train.py", cwd=EXAMPLES / example, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "chief-0" in done.stdout and "worker-0" in done.stdout
    assert "accuracy" in done.stdout
