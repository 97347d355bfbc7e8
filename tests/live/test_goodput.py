"""Goodput and findings of real programs that run as jobs: one that waits for its data, is killed, and goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live

PROGRAM = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset
from stoker import checkpoint
class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
state = checkpoint.State(model=model, optimizer=optimizer)
for _ in state.epochs(8):
    for batch in state.batches(DataLoader(Slow(), batch_size=4)):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
        time.sleep(0.02)
"""


@pytest.mark.campaign
def test_a_program_that_is_killed_and_waits_for_its_data(server: Server, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    flags = ("--checkpoints", "5s", "--max-retries", "2", "--job-dir", "gs://good-put/killed", "--async")
    done = server.cli("run", "--name", "killed", *flags, "--", "python", "program.py", cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    client = server.client

    def has_saved() -> bool:
        told = client.steps("local", "killed")
        saved = told["saves"]["step"] or 0
        return saved and told["replicas"][0]["step"] > saved + 20

    wait_until(has_saved, 120)
    client.interrupt("local", "killed", "KILL")
    wait_until(lambda: client.details("local", "killed")["state"] == "SUCCEEDED", 180)
    found = client.goodput("local", "killed")
    attempts = client.details("local", "killed")["attempts"]
    held = sum(attempt["ended_at"] - attempt["placed_at"] for attempt in attempts)
    assert len(attempts) == 2 and found["is_final"] and found["knows_lost"]
    assert sum(found["seconds"].values()) == pytest.approx(held, rel=1e-3)
    seconds = found["seconds"]
    assert 0.0 < seconds["lost"] < 0.5 * held and found["fault_seconds"] == 0.0, "it was nobody's fault but its own"
    assert seconds["input"] == pytest.approx(seconds["productive"], rel=0.5), (
        "20 ms of each for data, and 20 ms of work"
    )
    assert seconds["starting"] > 1.0 and seconds["unknown"] == 0.0 and seconds["idle"] < 2.0
    (first, *_) = client.findings("local", "killed")["findings"]
    assert first["code"] == "INPUT_BOUND" and first["source"] == "steps and samples"
    assert any("processors" in fact for fact in first["evidence"]), "its supervisor has told what it uses"
    assert "num_workers=" in first["change"]
    shown = server.cli("diagnose", "killed")
    assert "INPUT_BOUND: chief-0 waits for data" in shown.stdout + shown.stderr
    rows = json.loads(server.cli("goodput", "--by", "job", "--json").stdout)["rows"]
    assert [row["jobs"] for row in rows if row["name"] == "local/killed"] == [1]
