"""Examples on real data of Debian's: an unmodified script as a cluster, killed in mid-epoch, and a ResNet on photos."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Server, wait_until

pytestmark = [pytest.mark.live, pytest.mark.campaign]
EXAMPLES = Path(__file__).parents[2] / "examples"


def unpacked(package: str, folder: Path) -> Path:
    """The files of a Debian package, which is not installed."""
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get here")
    folder.mkdir()
    fetched = subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, capture_output=True, text=True)
    if fetched.returncode:  # a machine whose lists of packages are not there yet
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.deb")
    subprocess.run(["dpkg", "-x", archive.name, "."], cwd=folder, check=True)
    return folder


def run(server: Server, folder: Path, name: str, *words: str) -> str:
    """Run a command as a job until it has succeeded; what it and Stoker printed."""
    done = server.cli("run", f"--name={name}", *words, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(output: str) -> set[str]:
    """The last line of each replica."""
    return {line.partition("accuracy ")[2] for line in output.splitlines() if " steps" in line and "accuracy " in line}


@pytest.mark.proves(
    "Keras 3 on TensorFlow, `fit`", "Goes on after a kill", "also three replicas, one of which is killed"
)
def test_fashion_mnist_killed_in_the_middle_of_an_epoch_ends_as_if_nothing_was(server: Server, tmp_path: Path) -> None:
    files = unpacked("dataset-fashion-mnist", tmp_path / "package") / "usr/share/datasets/fashion-mnist"
    folder = tmp_path / "work"
    shutil.copytree(EXAMPLES / "fashion_mnist", folder)
    shutil.copytree(files, folder / "data")
    flags = ("--workers=2", "--distribute=auto", "--checkpoints=0.5s")
    words = ("--", "python", "train.py", "--data=data", "--images=12800", "--epochs=3")
    untouched = results(run(server, folder, "untouched", *flags, "--job-dir=gs://clothes/one", *words))
    server.cli("run", "--async", "--name=killed", *flags, "--job-dir=gs://clothes/two", *words, cwd=folder)

    def training() -> Any:
        return server.client.steps("local", "killed")

    wait_until(lambda: training()["replicas"] and training()["replicas"][0]["step"] > 80, seconds=120)
    server.client.interrupt("local", "killed", "KILL", "worker-1")
    wait_until(lambda: server.client.details("local", "killed")["state"] == "SUCCEEDED", seconds=180)
    killed = server.cli("logs", "killed").stdout
    assert len(untouched) == 1 and results(killed) == untouched, "one line, of all replicas of both runs"
    assert "after 201 steps" in next(iter(untouched)), "3 epochs of 67 steps, of 3 x 64 images"
    resumed = training()["saves"]["resumed_step"]
    assert resumed > 67 and resumed % 67, "in the middle of an epoch that was not the first"


def test_a_resnet_on_labelled_photos(server: Server, tmp_path: Path) -> None:
    stamps = unpacked("tuxpaint-stamps-default", tmp_path / "package") / "usr/share/tuxpaint/stamps"
    folder = tmp_path / "work"
    shutil.copytree(EXAMPLES / "photos", folder)
    subprocess.run([sys.executable, "photos.py", str(stamps)], cwd=folder, check=True)
    words = ("--", "python", "train.py", "--size=32", "--batch-size=32", "--epochs=1")
    output = run(server, folder, "photos", "--workers=1", "--distribute=auto", *words)
    assert "trains in step on 2 replicas (MultiWorkerMirroredStrategy), 32 examples each, 64 together" in output
    assert {found.partition(" of ")[2] for found in results(output)} == {"5 labels after 4 steps"}
