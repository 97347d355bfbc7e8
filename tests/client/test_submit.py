"""`stoker.submit`, whichever way a job is written down."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

import stoker as sdk
from stoker.app import Stoker
from stoker.client.client import Client
from stoker.client.jobs import Job
from stoker.core.errors import AlreadyExists, BadSpec, NotReady

pytestmark = pytest.mark.usefixtures("client", "folder")


def request_of(stoker: Stoker, job: Job) -> dict[str, Any]:
    """The body that the server was sent."""
    found: dict[str, Any] = json.loads(stoker.store.job(f"{job.project}/{job.name}").job.request.body)
    return found


@pytest.fixture
def trainer(folder: Path) -> Path:
    """A trainer package in the folder."""
    (folder / "trainer").mkdir()
    (folder / "trainer/__init__.py").touch()
    (folder / "trainer/task.py").touch()
    return folder / "trainer"


def test_a_script_with_all_that_it_may_want(stoker: Stoker) -> None:
    job = sdk.submit(
        "train.py",
        args=["--epochs", 3],
        name="all",
        project="q",
        job_dir="gs://some-bucket/out",
        labels={"team": "vision"},
        gpus=4,
        gpu_type="T4",
        workers=2,
        cpus=2,
        memory_gb=8,
        env={"SEED": "1"},
        priority=7,
        max_running_seconds=60,
    )
    found = stoker.store.job("q/all").job
    (chief, worker), program = found.spec.groups, found.spec.program
    assert (job.name, job.project) == ("all", "q")
    assert (program.command, dict(program.env)) == (("python", "train.py", "--epochs", "3"), {"SEED": "1"})
    assert (worker.count, chief.machine.accelerator, chief.machine.accelerators) == (2, "NVIDIA_TESLA_T4", 4)
    assert (chief.machine.vcpus, chief.machine.memory_gb) == (2.0, 8.0)
    assert (found.spec.priority, found.spec.job_dir, found.spec.limits.running_seconds) == (
        7,
        "gs://some-bucket/out",
        60,
    )
    assert dict(found.labels) == {"team": "vision"}
    with stoker.services.files.read(program.source) as file, zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["train.py"]


def test_whose_turn_it_is_goes_with_jobs_of_every_kind(trainer: Path, stoker: Stoker) -> None:
    asked: dict[str, Any] = {"queue": "default", "priority": 7, "preemptible": True, "resumable": True}
    command = sdk.submit("train.py", gpus=0.5, gpu_type="T4,K80", **asked)
    training = sdk.submit(package_path="trainer", module="trainer.task", labels={"team": "a"}, **asked)
    for job in (command, training):
        spec = stoker.store.job(f"{job.project}/{job.name}").job.spec
        assert (spec.queue, spec.priority, spec.preemptible, spec.resumable) == ("default", 7, True, True)
    assert command.describe()["machines"][0]["accelerators"] == 0.5
    assert request_of(stoker, training)["labels"]["team"] == "a"
    with pytest.raises(NotReady, match="no queue 'nobodys'"):
        sdk.submit("train.py", queue="nobodys")
    for wrong in ({"preemptible": "no"}, {"priority": 1.5}, {"queue": 3}, {"gpus": -1}, {"gpus": math.nan}):
        with pytest.raises(BadSpec, match=next(iter(wrong))):
            sdk.submit("train.py", **wrong)


def test_the_folder_is_sent_once_and_may_be_another(tmp_path: Path, stoker: Stoker) -> None:
    first, second = sdk.submit("train.py"), sdk.submit(Path("train.py"))
    assert first.name.startswith("train_") and first.name != second.name
    assert request_of(stoker, first)["source"] == request_of(stoker, second)["source"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.sh").touch()
    other = request_of(stoker, sdk.submit("x.sh", folder=tmp_path / "other"))
    assert other["command"] == ["sh", "x.sh"] and other["source"] != request_of(stoker, first)["source"]


def test_a_command_in_words(stoker: Stoker) -> None:
    assert request_of(stoker, sdk.submit(["bash", "-c", "echo $X"]))["command"] == ["bash", "-c", "echo $X"]


def test_a_job_of_v1_as_a_table_and_as_a_file(folder: Path, trainer: Path, stoker: Stoker) -> None:
    training = {"scaleTier": "BASIC", "region": "us-central1", "pythonModule": "trainer.task"}
    body = {"jobId": "table", "trainingInput": training}
    (folder / "config.yaml").write_text(json.dumps({"trainingInput": training}))
    assert sdk.submit(body, package_path=trainer).name == "table"
    job = sdk.submit("config.yaml", name="file", package_path="trainer", args=["--x", 1], scale_tier="CUSTOM",
                     master_machine_type="n1-standard-4")  # fmt: skip
    sent = request_of(stoker, job)
    assert (job.name, sent["trainingInput"]["args"]) == ("file", ["--x", "1"])
    assert (sent["trainingInput"]["scaleTier"], sent["trainingInput"]["masterType"]) == ("CUSTOM", "n1-standard-4")
    assert body == {"jobId": "table", "trainingInput": training}  # what was given is not written to


def test_a_trainer_package(trainer: Path, stoker: Stoker) -> None:
    job = sdk.submit(
        package_path="trainer",
        module="trainer.task",
        scale_tier="CUSTOM",
        job_dir="gs://some-bucket/out",
        master_machine_type="n1-highcpu-16",
        master_accelerator={"type": "t4", "count": 4},
        worker_machine_type="n1-highcpu-16",
        worker_accelerator={"type": "NVIDIA_TESLA_T4", "count": 4},
        worker_count=2,
    )
    found = request_of(stoker, job)["trainingInput"]
    assert job.name.startswith("trainer_") and found["region"] == "us-central1"
    assert found["masterConfig"]["acceleratorConfig"] == {"count": "4", "type": "NVIDIA_TESLA_T4"}
    assert found["workerCount"] == "2"
    assert found["packageUris"][0].startswith("gs://some-bucket/out/packages/")


def test_a_rehearsal_of_either_kind(trainer: Path, stoker: Stoker) -> None:
    command = sdk.submit("train.py", gpus=8, workers=20, rehearse=True)
    training = sdk.submit(package_path=trainer, module="trainer.task", scale_tier="PREMIUM_1", rehearse=True)
    real = sdk.submit(package_path=trainer, module="trainer.task", scale_tier="BASIC", rehearse=False)
    assert command.describe()["rehearsal"] and training.describe()["rehearsal"]
    assert training.name.startswith("rehearsal_") and not real.describe()["rehearsal"]


def test_whoever_wants_to_hear_hears(client: Client) -> None:
    class Ear(sdk.Progress):
        heard: list[str] = []  # noqa: RUF012

        def begins(self, what: str) -> None:
            self.heard.append(what)

        def done(self, what: str) -> None:
            self.heard.append(what)

    sdk.submit("train.py", progress=Ear())
    assert "1 file" in Ear.heard[0] and Ear.heard[1].startswith("uploaded")


def test_what_can_never_run_is_refused_with_the_way_to_rehearse() -> None:
    with pytest.raises(NotReady, match="no node here could ever hold") as refused:
        sdk.submit("train.py", gpus=9)
    assert "stoker.submit(…, rehearse=True)" in refused.value.fix


def test_a_mistake_in_a_file_is_told_with_its_line(folder: Path) -> None:
    (folder / "config.yaml").write_text("trainingInput:\n  scaleTier: BASIC\n  regoin: x\n")
    with pytest.raises(BadSpec, match=r"config\.yaml:3"):
        sdk.submit("config.yaml", name="wrong", module="trainer.task", packages=["gs://some-bucket/x.tar.gz"])


def test_a_name_is_taken_for_good() -> None:
    sdk.submit("train.py", name="taken")
    with pytest.raises(AlreadyExists):
        sdk.submit("train.py", name="taken")


@pytest.mark.parametrize(
    ("program", "options", "field"),
    [
        (None, {}, "program"),
        (None, {"gpus": 1}, "program"),
        ([], {}, "program"),
        ("", {}, "program"),
        ("python train.py", {}, "program"),
        ("trian.py", {}, "program"),
        ("train.py", {"scale_tier": "BASIC", "module": "x"}, "module"),
        ("config.yaml", {"gpus": 1, "env": {}}, "env"),
        ({}, {"folder": "."}, "folder"),
        ({}, {"name": "a-b"}, "job.job_id"),
        ({}, {"master_accelerator": {"type": "T4"}}, "master_accelerator"),
        ({}, {"worker_machine_type": "n1-standard-4"}, "--worker-machine-type"),
        ("train.py", {"name": "a-b"}, "name"),
        ("train.py", {"gpus": 1, "gpu_type": "T5"}, "gpu_type"),
        ("train.py", {"folder": "/no/such/folder"}, "folder"),
        ("nothing.yaml", {}, "nothing.yaml"),
        (None, {"package_path": "nothing", "module": "x"}, "--package-path"),
        (5, {}, "program"),
        (b"train.py", {}, "program"),
        ([b"python", "train.py"], {}, "program"),
        ("a\0.py", {}, "program"),
        ({"jobId": "j", "trainingInput": {"args": ["\ud800"]}}, {}, "program"),
        ({"jobId": "j", "trainingInput": object()}, {}, "program"),
        ("train.py", {"args": "--epochs 3"}, "args"),
        ("train.py", {"args": b"--epochs"}, "args"),
        ("train.py", {"args": ["\ud800"]}, "args"),
        ("train.py", {"labels": ["a"]}, "labels"),
        ("train.py", {"env": {"A": "\ud800"}}, "env"),
        ("train.py", {"env": numpy.array([1, 2])}, "env"),
        ("train.py", {"cpus": "x"}, "cpus"),
        ("train.py", {"cpus": math.nan}, "cpus"),
        ("train.py", {"cpus": 0}, "cpus"),
        ("train.py", {"memory_gb": math.inf}, "memory_gb"),
        ("train.py", {"max_running_seconds": 0}, "max_running_seconds"),
        ("train.py", {"gpus": -1}, "gpus"),
        ("train.py", {"folder": 5}, "folder"),
        ("train.py", {"folder": "x" * 5000}, "folder"),
        ("train.py", {"name": 5}, "name"),
        ("train.py", {"project": 5}, "project"),
        ("train.py", {"rehearse": "no"}, "rehearse"),
        ({}, {"args": "--epochs 3"}, "args"),
        ({}, {"packages": "a.whl"}, "packages"),
        ({}, {"scale_tier": 5}, "scale_tier"),
        ({}, {"worker_count": -1}, "worker_count"),
        ({}, {"master_accelerator": {"type": "T4", "count": math.inf}}, "master_accelerator"),
        ({}, {"gpus": 0}, "gpus"),
        ({"jobId": "j"}, {"package_path": "x" * 5000}, "--package-path"),
        ({"jobId": "j"}, {"packages": ["x" * 5000]}, "--packages"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(program: Any, options: dict[str, Any], field: str) -> None:
    with pytest.raises(BadSpec) as refused:
        sdk.submit(program, **options)
    assert refused.value.violations[0].field == field


def test_a_zero_is_a_number_like_any_other(stoker: Stoker, folder: Path) -> None:
    """What a file says is changed to it, and a plain command has none of it."""
    (folder / "trainer.tar.gz").touch()
    training = {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": "2",
        "parameterServerType": "n1-standard-4",
        "parameterServerCount": "1",
        "pythonModule": "trainer.task",
    }
    body, packages = {"jobId": "none", "trainingInput": training}, ["trainer.tar.gz"]
    job = sdk.submit(body, packages=packages, worker_count=0, parameter_server_count=0)
    assert [machine["role"] for machine in job.describe()["machines"]] == ["chief"]
    assert len(sdk.submit(body, name="as_it_stands", packages=packages).describe()["machines"]) == 3
    sent = request_of(stoker, sdk.submit("train.py", gpus=0, workers=0, priority=0, memory_gb=0, args=[0]))
    assert (sent["gpus"], sent["workers"], sent["memory_gb"], sent["command"][-1]) == (0, 0, 0.0, "0")


def test_an_empty_text_asks_for_nothing(stoker: Stoker) -> None:
    job = sdk.submit("train.py", name="", job_dir="", project="", gpu_type="", folder="")
    assert job.name.startswith("train_")


def test_numbers_of_numpy_are_numbers(stoker: Stoker) -> None:
    job = sdk.submit("train.py", args=numpy.array([1, 2]), workers=numpy.int64(1), cpus=numpy.float32(0.5))
    sent = request_of(stoker, job)
    assert (sent["command"][2:], sent["workers"], sent["vcpus"]) == (["1", "2"], 1, 0.5)


def test_an_option_that_is_none_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        sdk.submit("train.py", gpu=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("word", "told"),
    [("gpu", "did you mean gpus?"), ("worker", "did you mean workers?"), ("job_directory", "did you mean job_dir?")],
)
def test_an_option_that_there_is_not_is_told_with_the_nearest(folder: Path, word: str, told: str) -> None:
    with pytest.raises(TypeError) as error:
        sdk.submit(folder / "train.py", **{word: 1})  # type: ignore[arg-type]
    assert str(error.value) == f"stoker.submit has no option {word!r}; {told}"
