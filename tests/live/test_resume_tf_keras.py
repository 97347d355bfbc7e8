"""`fit` of tf_keras, unmodified, killed in the middle of an epoch: it ends as if nobody had touched it."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.conftest import Server

from .test_resume import DATASET, EPOCHS, MADE_OF_OTHERS, MUCH, PROGRAM, Runs, a_killed_chief_changes_nothing, results

pytestmark = pytest.mark.live


def of_tf_keras(program: str) -> str:
    """The same program, with the Keras that came before."""
    before = program.replace("keras.metrics.F1Score()", "'accuracy', keras.metrics.AUC()").replace('.keras"', '.h5"')
    return "import tf_keras as keras\n" + before.replace("keras, numpy", "numpy")


CASES = {
    "arrays": (of_tf_keras(PROGRAM), 53, ""),
    "several inputs, weights of classes, and callbacks that remember": (of_tf_keras(MUCH), 40, ""),
    "made of others": (of_tf_keras(MADE_OF_OTHERS), 13, ""),
    **{
        f"{kind}, {step}": (of_tf_keras(DATASET), step, kind)
        for kind, step in (
            *(("finite", 23), ("finite", 61), ("cached", 61), ("endless", 23), ("generator", 23)),
            *(("length not known", 23), ("length not known", 65)),
        )
    },
}


@pytest.mark.campaign
@pytest.mark.proves("tf_keras, `fit`", "Goes on after a kill", "at the same batch, bit-equal, unchanged")
@pytest.mark.parametrize("case", CASES)
def test_killed_in_the_middle_of_an_epoch(tmp_path: Path, case: str) -> None:
    """All that it prints is the same: of its weights, of its metrics, of what its callbacks know and have written."""
    program, step, kind = CASES[case]
    variables = {"TF_USE_LEGACY_KERAS": "1", "KIND": kind}
    whole = Runs(tmp_path / "whole", program)(0, **variables)
    run = Runs(tmp_path / "killed", program)
    assert run(step, signal.SIGKILL, **variables).returncode == -signal.SIGKILL
    done = run(step, signal.SIGKILL, **variables)
    assert done.returncode == 0 and results(whole.stdout), whole.stderr + done.stderr
    assert done.stdout == whole.stdout, "bit by bit"
    assert re.search(r"goes on at step \d+: epoch \d, [1-9]\d* (steps|examples) into it", done.stderr)


@pytest.mark.campaign
@pytest.mark.parametrize(("data", "program"), [("arrays", PROGRAM), ("pipeline", DATASET)], ids=["arrays", "pipeline"])
def test_two_workers_whose_chief_is_killed(server: Server, tmp_path: Path, data: str, program: str) -> None:
    (tmp_path / "program.py").write_text("import os\nos.environ['KIND'] = 'finite'\n" + of_tf_keras(program))
    flags = ("--workers=1", "--env=TF_USE_LEGACY_KERAS=1")
    a_killed_chief_changes_nothing(server, tmp_path, f"tf_keras_{data}", 11, *flags, replicas=2)


def test_with_parameter_servers_it_is_refused(tmp_path: Path) -> None:
    addresses = {role: [f"127.0.0.1:{port}"] for port, role in enumerate(("chief", "worker", "ps"), start=1)}
    cluster = json.dumps({"cluster": addresses, "task": {"type": "chief", "index": 0}})
    told = {"STOKER_DISTRIBUTE": "auto", "STOKER_ROLE": "chief", "RANK": "0", "WORLD_SIZE": "2", "TF_CONFIG": cluster}
    done = Runs(tmp_path, "import tf_keras as keras\nkeras.Sequential()\n")(0, TF_USE_LEGACY_KERAS="1", **told)
    assert done.returncode == 1 and "--checkpoints is not for parameter servers" in done.stderr, done.stderr


@pytest.mark.campaign
def test_the_learning_rate_is_what_callbacks_had_made_of_it(tmp_path: Path) -> None:
    """Also where an epoch begins anew, because its data cannot be entered in the middle."""
    schedule = "keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)"
    said = "print('rate', round(float(model.optimizer.learning_rate), 6))\n"
    program = EPOCHS.replace("PyDataset", "Sequence").replace("Batches(workers=2)", "Batches()").replace("0.15", "0.05")
    program = (
        program.replace("[Ends()]", f"[{schedule}, Ends()]").replace("import os", "import tf_keras as keras, os") + said
    )
    run = Runs(tmp_path, program.replace(" keras, numpy", " numpy"))
    variables = {"TF_USE_LEGACY_KERAS": "1"}
    assert run(25, signal.SIGKILL, **variables).returncode == -signal.SIGKILL
    done = run(25, signal.SIGKILL, **variables)
    assert "goes on at step 20: epoch 3" in done.stderr and "rate 0.000625" in done.stdout, done.stdout + done.stderr
