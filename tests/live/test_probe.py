"""A probe of real programs: a script for one device on one and two machines, and a job of AI Platform's kind."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import Server

pytestmark = pytest.mark.live

PROGRAM = """
import time, stoker
for batch in stoker.reading(range(100_000)):
    time.sleep(0.005)
    stoker.step(examples=32)
"""
TORCH = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loader = DataLoader(TensorDataset(torch.ones(1024, 64), torch.ones(1024, 1)), batch_size=32, shuffle=True)
for epoch in range(100_000):
    for batch, wanted in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), wanted).backward()
        optimizer.step()
"""
CONFIG = """
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-8
  masterConfig: {acceleratorConfig: {count: 1, type: NVIDIA_TESLA_T4}}
  parameterServerCount: 1
  parameterServerType: n1-standard-4
  region: us-central1
  pythonModule: trainer.task
  jobDir: gs://probes/x
"""


@pytest.mark.campaign
def test_a_script_for_one_device_on_one_and_on_two_machines(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TORCH)
    flags = ("--try=cpu,2*cpu,1xT4", "--name=both", "--seconds=3s", "--json")
    done = server.cli("probe", *flags, "--", "python", "train.py", cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    one, two, gpu = told["candidates"]
    assert told["unit"] == "epoch" and one["speed_up"] == 1.0 and two["measured"]["in_step"] == 2
    epochs = [found["measured"]["epoch_seconds"] for found in (one, two)]
    rates = [found["measured"]["steps_per_second"] for found in (one, two)]
    assert [e * r for e, r in zip(epochs, rates, strict=True)] == pytest.approx([32, 16]), "each reads its half"
    assert two["speed_up"] == pytest.approx(epochs[0] / epochs[1])
    assert one["measured"]["examples_per_second"] > 0 and two["measured"]["together_share"] > 0
    assert (
        "no node here could ever hold 1 × 1 NVIDIA_TESLA_T4" in gpu["measured"]["problem"] and "1xT4: no" in done.stderr
    )
    assert told["advice"][0].startswith("2*cpu: ") and told["advice"][-1].startswith("→ ")
    assert [server.client.details("local", job)["state"] for job in ("both_cpu", "both_2_cpu")] == ["CANCELLED"] * 2
    scaling = server.client.steps("local", "both_2_cpu")["scaling"]
    assert (scaling["probe"], scaling["devices"], scaling["probe_devices"]) == ("both_cpu", 2, 1)
    assert "as quick on 2 as on one device in both_cpu" in server.cli("metrics", "both_2_cpu").stderr


def test_a_job_of_ai_platform_with_prices(server: Server, tmp_path: Path) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(PROGRAM)
    (tmp_path / "config.yaml").write_text(CONFIG)
    flags = ("--try=cpu,2*cpu", "--name=paid", "--seconds=2s", "--config=config.yaml", "--package-path=trainer")
    done = server.cli("probe", *flags, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    header, one, two, *said = done.stdout.splitlines()
    assert header.split()[-1] == "USD/EPOCH" and "1 x n1-standard-8" in one and "2 x n1-standard-8" in two
    assert float(two.split()[-2]) == pytest.approx(2 * float(one.split()[-2]), rel=0.01), "twice the price by the hour"
    assert 0.8 < float(re.findall(r"([\d.]+)x ", two)[0]) < 1.2, "two copies, each of which goes through all of it"
    assert "2*cpu: whether its 2 train as one is not known (nobody has looked)" in said
    assert said[-1].startswith(("→ cpu is enough", "→ cpu is the cheapest per epoch")), (
        "noise may look like a small gain"
    )
    shown = server.client.job("local", "paid_2_cpu")
    assert shown["labels"] == {"stoker-probe": "paid", "stoker-distribute": "auto"}
    assert shown["trainingInput"]["jobDir"] == "gs://probes/x/probe/paid_2_cpu"
    assert "parameterServerCount" not in shown["trainingInput"], "a chief, and workers like it"


def test_a_command_brings_its_packages_and_its_python(server: Server, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("--no-index\nno-such-library\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    flags = ("--try=cpu", "--name=brings", f"--python={sys.executable}")
    done = server.cli("probe", *flags, "--", "python", "train.py", cwd=tmp_path)
    assert f"environment: requirements.txt (1 requirement) on Python {sys.executable}" in done.stderr
    ended = server.cli("logs", "brings_cpu")
    assert "no-such-library" in ended.stdout + ended.stderr, "it was asked for on the machine"
    done = server.cli("probe", "--try=cpu", "--module-name=trainer.task", "--python=3.12", cwd=tmp_path)
    assert done.returncode == 2 and "--python is of a plain command" in done.stderr


def test_without_a_program_it_says_how(server: Server, tmp_path: Path) -> None:
    done = server.cli("probe", "--try=cpu", cwd=tmp_path)
    assert done.returncode == 2 and "stoker probe --try HARDWARE -- python train.py" in done.stderr
