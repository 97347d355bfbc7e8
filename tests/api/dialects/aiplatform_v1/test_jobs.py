"""Job JSON ⇄ JobSpec: every rule of the contract, sections 1.1 to 1.5, and what a job is understood to ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.api.dialects.aiplatform_v1.jobs import (
    answer,
    etag,
    read_job,
    revision_of,
)
from stoker.api.dialects.aiplatform_v1.messages import TRAINING_INPUT
from stoker.api.dialects.aiplatform_v1.training import TRAINING, as_training
from stoker.api.labels import label_violations
from stoker.api.proto_json import Message
from stoker.api.times import timestamp
from stoker.api.translation import SiteRules
from stoker.core.errors import BadSpec, Unimplemented
from stoker.core.job import Job
from stoker.core.runtimes import Surroundings
from stoker.core.spec import Group, JobSpec, Limits, Machine, Program
from stoker.core.states import JobState
from stoker.store.base import Listed
from tests.api.bodies import PACKAGE, a_job_body, a_training, custom

SITE = SiteRules()
T4 = "NVIDIA_TESLA_T4"
IMAGE = {"imageUri": "gcr.io/p/i"}


def accelerators(count: Any, kind: str = T4) -> dict[str, Any]:
    """A ReplicaConfig with accelerators."""
    return {"acceleratorConfig": {"count": count, "type": kind}}


def container(**changes: Any) -> dict[str, Any]:
    """A job that runs an image."""
    nothing = {"pythonModule": None, "packageUris": None, "runtimeVersion": None, "pythonVersion": None}
    return custom(**{**nothing, "masterConfig": IMAGE, **changes})


def wrong(body: Any, site: SiteRules = SITE) -> dict[str, str]:
    """Path → description of everything that is wrong with a body; empty if it is accepted."""
    try:
        read_job(body, site)
    except BadSpec as error:
        return {v.field: v.description for v in error.violations}
    return {}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    # 1.1 names and labels
    "no id": (a_job_body(""), "job.job_id"),
    "a hyphen": (a_job_body("bad-id"), "job.job_id"),
    "a digit first": (a_job_body("1st"), "job.job_id"),
    "129 characters": (a_job_body("a" * 129), "job.job_id"),
    "a newline": (a_job_body("a\n"), "job.job_id"),
    "an id that is a table": (a_job_body({"a": 1}), "job.job_id"),  # type: ignore[arg-type]
    "65 labels": (a_job_body(labels={f"k{n}": "v" for n in range(65)}), "job.labels"),
    "an upper-case key": (a_job_body(labels={"Team": "ml"}), "job.labels.Team"),
    "a key that starts with a digit": (a_job_body(labels={"1st": "ml"}), "job.labels.1st"),
    "an empty key": (a_job_body(labels={"": "ml"}), "job.labels."),
    "a key of 64": (a_job_body(labels={"k" * 64: "ml"}), f"job.labels.{'k' * 64}"),
    "a value of 64": (a_job_body(labels={"k": "v" * 64}), "job.labels.k"),
    "a value with a blank": (a_job_body(labels={"k": "a b"}), "job.labels.k"),
    "labels that are a list": (a_job_body(labels=["a"]), "job.labels"),
    # 1.2
    "neither input": ({"jobId": "j"}, "job.training_input"),
    "both inputs": ({**a_job_body(), "predictionInput": {}}, "job.prediction_input"),
    "an input that is a text": ({"jobId": "j", "trainingInput": "x"}, "training_input"),
    "a misspelt field of the job": ({**a_job_body(), "lables": {}}, "job"),
    "a misspelt field of the input": (a_job_body(workerTypes="n1-standard-4"), "training_input"),
    "a misspelt field of a part": (custom(masterConfig={"imageURL": "x"}), "master_config"),
    # 1.3, by the contract's numbers
    "1 CUSTOM without a master": (a_job_body(scaleTier="CUSTOM"), "master_type"),
    "2 workers in BASIC": (a_job_body(workerCount="2", workerType="n1-standard-4"), "worker_count"),
    "2 ps in STANDARD_1": (
        a_job_body(scaleTier="STANDARD_1", parameterServerCount=1, parameterServerType="n1-standard-4"),
        "parameter_server_count",
    ),
    "2 evaluators in BASIC": (a_job_body(evaluatorCount=1, evaluatorType="n1-standard-4"), "evaluator_count"),
    "2 a master in BASIC_GPU": (a_job_body(scaleTier="BASIC_GPU", masterType="n1-standard-4"), "master_type"),
    "3 workers of no type": (custom(workerCount=1), "worker_type"),
    "3 ps of no type": (custom(parameterServerCount="1"), "parameter_server_type"),
    "3 evaluators of no type": (custom(evaluatorCount="1"), "evaluator_type"),
    "4 legacy master, new workers": (
        custom(masterType="complex_model_m", workerCount="1", workerType="n1-highcpu-16"),
        "worker_type",
    ),
    "4 new master, legacy ps": (
        custom(parameterServerCount=1, parameterServerType="large_model"),
        "parameter_server_type",
    ),
    "5 GPUs on a legacy type": (
        custom(masterType="complex_model_m", masterConfig=accelerators(1)),
        "master_config.accelerator_config.type",
    ),
    "5 three T4": (
        custom(masterType="n1-highcpu-16", masterConfig=accelerators(3)),
        "master_config.accelerator_config.count",
    ),
    "5 two V100 on n1-standard-32": (
        custom(masterType="n1-standard-32", masterConfig=accelerators(2, "NVIDIA_TESLA_V100")),
        "master_config.accelerator_config.count",
    ),
    "5 an accelerator of no count": (
        custom(masterConfig={"acceleratorConfig": {"type": T4}}),
        "master_config.accelerator_config",
    ),
    "5 an accelerator that is none": (
        custom(masterConfig=accelerators(1, "NVIDIA_TESLA_T5")),
        "master_config.accelerator_config.type",
    ),
    "5 a machine that is none": (custom(masterType="n1-standard-5"), "master_type"),
    "6 an image and a runtime": (container(runtimeVersion="2.11"), "runtime_version"),
    "6 an image and a Python": (container(pythonVersion="3.7"), "python_version"),
    "7 args and a command": (container(args=["a"], masterConfig={**IMAGE, "containerCommand": ["c"]}), "args"),
    "7 args and a worker's args": (
        container(args=["a"], workerCount=1, workerType="n1-standard-4", workerConfig={"containerArgs": ["c"]}),
        "args",
    ),
    "7 a command without an image": (
        custom(masterConfig={"containerCommand": ["c"]}),
        "master_config.container_command",
    ),
    "7 args without an image": (
        custom(workerCount=1, workerType="n1-standard-4", workerConfig={"containerArgs": ["c"]}),
        "worker_config.container_args",
    ),
    "8 101 packages": (a_job_body(packageUris=[PACKAGE] * 101), "package_uris"),
    "8 no package": (a_job_body(packageUris=None), "package_uris"),
    "8 an empty list": (a_job_body(packageUris=[]), "package_uris"),
    "8 no module": (a_job_body(pythonModule=None), "python_module"),
    "8 a package that is no URI": (a_job_body(packageUris=["trainer.tar.gz"]), "package_uris"),
    "8 a bucket of two letters": (a_job_body(packageUris=["gs://ab/t.tar.gz"]), "package_uris"),
    "9 Python 3.5 with 2.11": (a_job_body(pythonVersion="3.5"), "python_version"),
    "9 Python 2.7 with 2.1": (a_job_body(pythonVersion="2.7", runtimeVersion="2.1"), "python_version"),
    "9 Python 3.7 with 1.14": (a_job_body(runtimeVersion="1.14"), "python_version"),
    "9 Python 3.9": (a_job_body(pythonVersion="3.9"), "python_version"),
    "9 a runtime that is not a version": (a_job_body(runtimeVersion="latest"), "runtime_version"),
    "10 no zone has them all": (
        custom(
            masterConfig=accelerators(1, T4),
            parameterServerCount=1,
            parameterServerType="n1-standard-8",
            parameterServerConfig=accelerators(1, "NVIDIA_TESLA_K80"),
            workerCount=1,
            workerType="n1-standard-8",
            workerConfig=accelerators(1, "NVIDIA_TESLA_P100"),
        ),
        "region",
    ),
    "11 a wait of 1799s": (a_job_body(scheduling={"maxWaitTime": "1799s"}), "scheduling.max_wait_time"),
    "11 a wait that is not a duration": (a_job_body(scheduling={"maxWaitTime": "2h"}), "scheduling.max_wait_time"),
    "11 no running time": (a_job_body(scheduling={"maxRunningTime": "0s"}), "scheduling.max_running_time"),
    "11 a priority of 1001": (a_job_body(scheduling={"priority": 1001}), "scheduling.priority"),
    "11 a priority of -1": (a_job_body(scheduling={"priority": -1}), "scheduling.priority"),
    "12 BASIC_TPU": (a_job_body(scaleTier="BASIC_TPU"), "scale_tier"),
    "12 TPU workers": (
        custom(workerCount=1, workerType="cloud_tpu", workerConfig=accelerators(8, "TPU_V2")),
        "worker_type",
    ),
    "no region": (a_job_body(region=None), "region"),
    "an empty region": (a_job_body(region=""), "region"),
    "a region that is none": (a_job_body(region="us-centrall1"), "region"),
    "a zone": (a_job_body(region="us-central1-a"), "region"),
    "a tier that is none": (a_job_body(scaleTier="HUGE"), "scale_tier"),
    "a job dir that is no URI": (a_job_body(jobDir="out"), "job_dir"),
    "a count that is a word": (custom(workerCount="two", workerType="n1-standard-4"), "worker_count"),
    "a negative count": (custom(workerCount=-1, workerType="n1-standard-4"), "worker_count"),
    "a count beyond reason": (custom(workerCount=2**63 - 1, workerType="n1-standard-4"), "worker_count"),
    # 1.4
    "a disk that is none": (
        custom(masterConfig={"diskConfig": {"bootDiskType": "floppy"}}),
        "master_config.disk_config.boot_disk_type",
    ),
    "an image for the workers alone": (
        custom(workerCount=1, workerType="n1-standard-4", workerConfig=IMAGE),
        "worker_config.image_uri",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    body, path = REFUSED[case]
    assert path in wrong(body), wrong(body)


ACCEPTED: dict[str, dict[str, Any]] = {
    "the plainest": a_job_body(),
    "no tier is BASIC": a_job_body(scaleTier=None),
    "an id of 128": a_job_body("a" * 128),
    "labels": a_job_body(labels={"team": "ml", "größe": "übergroß", "empty": "", "n": 7}),
    "64 labels": a_job_body(labels={f"k{n}": "v" for n in range(64)}),
    "no runtime, no Python": a_job_body(runtimeVersion=None, pythonVersion=None),
    "a Python alone": a_job_body(runtimeVersion=None),
    "a runtime alone": a_job_body(pythonVersion=None),
    "Python 2.7": a_job_body(runtimeVersion="1.15", pythonVersion="2.7"),
    "Python 3.5": a_job_body(runtimeVersion="1.14", pythonVersion="3.5"),
    "100 packages": a_job_body(packageUris=[PACKAGE] * 100),
    "a type with a count of 0": custom(workerType="n1-standard-4", workerCount=0),
    "a type with no count": custom(workerType="n1-standard-4"),
    "all legacy": custom(masterType="complex_model_m_gpu", workerType="complex_model_m_gpu", workerCount=9),
    "an image": container(),
    "an image with a command": container(masterConfig={**IMAGE, "containerCommand": ["c"], "containerArgs": ["d"]}),
    "a command with the master's image": container(
        workerCount=1, workerType="n1-standard-4", workerConfig={"containerCommand": ["c"]}
    ),
    "a wait of 1800s": a_job_body(scheduling={"maxWaitTime": "1800s", "maxRunningTime": "3.5s", "priority": 1000}),
    "the fields that have no effect": a_job_body(
        encryptionConfig={"kmsKeyName": "k"}, network="n", serviceAccount="a@b", enableWebAccess=False
    ),
    "disks": custom(masterConfig={"diskConfig": {"bootDiskType": "pd-standard", "bootDiskSizeGb": 200}}),
    "a plain path": a_job_body(packageUris=["/shared/t.tar.gz"], jobDir="/shared/out"),
    "output-only fields": {**a_job_body(), "state": "FAILED", "createTime": 7, "trainingOutput": {"a": [1]}},
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str) -> None:
    assert wrong(ACCEPTED[case]) == {}


def test_everything_wrong_is_told_at_once() -> None:
    body = a_job_body(
        "bad-id",
        labels={"Team": "ml"},
        scaleTier="CUSTOM",
        masterType="n1-highcpu-16",
        masterConfig=accelerators(3),
        workerCount="two",
        regionn="x",
        region="nowhere",
        packageUris=None,
        pythonVersion="3.5",
        scheduling={"priority": 5000, "maxWaitTime": "1s"},
        jobDir="out",
    )
    assert set(wrong(body)) == {
        "job.job_id",
        "job.labels.Team",
        "training_input",
        "worker_count",
        "master_config.accelerator_config.count",
        "region",
        "package_uris",
        "python_version",
        "scheduling.priority",
        "scheduling.max_wait_time",
        "job_dir",
    }


def test_a_wrong_name_is_told_also_where_the_tier_is_wrong() -> None:
    body = a_job_body(masterType="n1-standard-5", masterConfig=accelerators(1, "NVIDIA_TESLA_T5"))
    with pytest.raises(BadSpec) as refused:
        read_job(body, SITE)
    text = str(refused.value)
    assert "BASIC fixes its machines" in text
    assert "no such machine type; use n1-standard-4" in text
    assert "no such accelerator; use NVIDIA_TESLA_T4" in text


def test_what_is_wrong_is_told_with_the_nearest_valid_choice() -> None:
    assert "did you mean workerType?" in wrong(a_job_body(workerTypes="x"))["training_input"]
    assert "did you mean BASIC_GPU?" in wrong(a_job_body(scaleTier="basic-gpu"))["scale_tier"]
    assert "use us-central1" in wrong(a_job_body(region="us-centrall1"))["region"]
    three = wrong(custom(masterType="n1-highcpu-16", masterConfig=accelerators(3)))
    assert "use 2 or 4" in three["master_config.accelerator_config.count"]


@pytest.mark.parametrize("part", ["predictionInput", "hyperparameters"])
def test_what_is_not_served_yet_says_so(part: str) -> None:
    body = {"jobId": "j", "predictionInput": {}} if part == "predictionInput" else a_job_body(hyperparameters={})
    with pytest.raises(Unimplemented):
        read_job(body, SITE)


def test_strict_runtimes() -> None:
    here = Surroundings({"2.11": "/a/python", "1.15": "/b/python"}, "3.11", "2.21.0", lambda: frozenset({"3.11"}))
    strict = SiteRules(strict_runtimes=True, runtimes=here)
    assert wrong(a_job_body(), strict) == {}
    told = wrong(a_job_body(runtimeVersion="2.3"), strict)["runtime_version"]
    assert "TensorFlow 2.3, which exists for Python 3.7 to 3.8; here is Python 3.11, with TensorFlow 2.21.0" in told
    assert "uv python install 3.8" in told and "stoker config set runtimes 2.3=" in told
    assert wrong(a_job_body(runtimeVersion="2.3")) == {}


def test_the_documents_example() -> None:
    asked = read_job(
        custom(
            masterType="n1-highcpu-16",
            masterConfig=accelerators(4),
            workerCount=9,
            workerType="n1-highcpu-16",
            workerConfig=accelerators("4"),
            parameterServerCount="3",
            parameterServerType="n1-highmem-8",
            args=["--epochs", 3],
            jobDir="gs://some-bucket/out",
            scheduling={"maxRunningTime": "7200s", "maxWaitTime": "3600.5s", "priority": 7},
        ),
        SiteRules(grace_seconds=5.0),
    )
    spec = asked.spec
    gpu_machine = Machine(type="n1-highcpu-16", vcpus=16.0, memory_gb=14.4, accelerator=T4, accelerator_milli=4000)
    assert [(g.role, g.count) for g in spec.groups] == [("chief", 1), ("worker", 9), ("ps", 3)]
    assert [g.machine for g in spec.groups[:2]] == [gpu_machine, gpu_machine]
    assert spec.groups[2].machine.accelerators == 0
    assert (spec.replicas, spec.region, spec.priority, spec.job_dir) == (13, "us-central1", 7, "gs://some-bucket/out")
    assert spec.limits == Limits(running_seconds=7200.0, wait_seconds=3600.5, grace_seconds=5.0)
    assert spec.program == Program(
        packages=(PACKAGE,), module="trainer.task", args=("--epochs", "3"), runtime="2.11", python="3.7"
    )
    told = json.loads(spec.told)
    assert (told["worker_count"], told["master_config"]["accelerator_config"]["type"]) == ("9", T4)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (a_job_body(runtimeVersion="2.1"), "chief"),
        (a_job_body(runtimeVersion="1.15"), "master"),
        (a_job_body(runtimeVersion=None), "chief"),
        (container(), "master"),
        (container(useChiefInTfConfig="True"), "chief"),
        (container(useChiefInTfConfig=False), "master"),
    ],
)
def test_what_tf_config_calls_the_chief(body: dict[str, Any], name: str) -> None:
    assert read_job(body, SITE).spec.primary_name == name


def test_images_fall_back_to_the_masters() -> None:
    workers = {"workerCount": 1, "workerType": "n1-standard-4"}
    fallen = read_job(container(**workers), SITE).spec
    own = read_job(container(**workers, workerConfig={"imageUri": "gcr.io/p/w"}), SITE).spec
    assert [g.image for g in fallen.groups] == ["gcr.io/p/i", "gcr.io/p/i"]
    assert [g.image for g in own.groups] == ["gcr.io/p/i", "gcr.io/p/w"]


def a_listed(body: dict[str, Any], **changes: Any) -> Listed:
    """The row of a job of this body."""
    asked = read_job(body, SITE)
    values: dict[str, Any] = {"labels": asked.labels, "submitted_at": 1_527_592_563.0, **changes}
    return Listed(
        n=1, job=Job(id=f"p/{asked.name}", spec=asked.spec, request=asked.request, owner="u", **values), attempt=None
    )


def test_the_answer_is_what_was_sent_in_the_canonical_spelling_and_no_more() -> None:
    sent = a_training(scaleTier=None, enable_web_access="False", scheduling={"priority": "3"}, args=[])
    shown = answer(a_listed({"job_id": "j", "training_input": sent, "state": "RUNNING", "labels": {"a": "1"}}))
    expected = a_training(scaleTier=None, enableWebAccess=False, scheduling={"priority": 3}, args=[])
    assert shown == {
        "jobId": "j",
        "trainingInput": expected,
        "labels": {"a": "1"},
        "createTime": "2018-05-29T11:16:03Z",
        "state": "QUEUED",
        "etag": shown["etag"],
    }


def test_the_request_is_kept_as_it_came() -> None:
    body = {"job_id": "j", "training_input": a_training(workerCount=None)}
    assert json.loads(read_job(body, SITE).request.body) == body


def test_an_ended_job_has_its_times_and_its_error() -> None:
    listed = a_listed(
        a_job_body(), state=JobState.FAILED, started_at=1_527_592_600.9, ended_at=1_527_592_700.0, message="It broke."
    )
    shown = answer(listed)
    assert (shown["state"], shown["startTime"], shown["endTime"], shown["errorMessage"]) == (
        "FAILED",
        "2018-05-29T11:16:40Z",
        "2018-05-29T11:18:20Z",
        "It broke.",
    )


def test_a_queued_job_shows_neither_an_end_nor_an_error() -> None:
    shown = answer(a_listed(a_job_body(), message="an earlier attempt broke"), position=3)
    assert not {"startTime", "endTime", "errorMessage"} & set(shown)
    assert shown["jobPosition"] == "3"


def test_an_etag_stands_for_a_revision() -> None:
    job = a_listed(a_job_body(), revision=12).job
    assert revision_of(etag(job), "j") == 12
    assert [revision_of(text, "j") for text in ("", "x", "é", "MTI", "YTpi", "AAAA")] == [0] * 6
    assert revision_of(etag(job), "k") == 0


def test_times_are_to_the_second() -> None:
    assert timestamp(0.999) == "1970-01-01T00:00:00Z"


def test_labels_of_a_whole_dictionary_cost_one_line() -> None:
    assert len(label_violations({f"K{n}": "v" for n in range(100_000)})) == 1


def test_a_job_of_another_dialect_is_told_in_these_words() -> None:
    t4 = Machine(type="n1-standard-8", accelerator=T4, accelerator_milli=2000)
    groups = (
        Group(role="chief", count=1, machine=Machine(), image="gcr.io/p/i", module="trainer.task", args=("--b",)),
        Group(role="worker", count=3, machine=t4, image="gcr.io/p/j", command=("sh",), args=("-c", "x")),
    )
    spec = JobSpec(
        program=Program(packages=("gs://bkt/p.whl",)), groups=groups, region="us-central1", job_dir="gs://bkt/x"
    )
    assert as_training(spec) == {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "jobDir": "gs://bkt/x",
        "packageUris": ["gs://bkt/p.whl"],
        "pythonModule": "trainer.task",
        "args": ["--b"],
        "scheduling": {"maxRunningTime": "604800s", "priority": 0},
        "masterConfig": {"imageUri": "gcr.io/p/i"},
        "workerType": "n1-standard-8",
        "workerCount": "3",
        "workerConfig": {
            "imageUri": "gcr.io/p/j",
            "containerCommand": ["sh"],
            "containerArgs": ["-c", "x"],
            "acceleratorConfig": {"type": T4, "count": "2"},
        },
    }


def test_every_field_has_one_row() -> None:
    """So that none is forgotten: what the message has, the table has, once. The two that are not served are refused."""

    def leaves(message: Message, prefix: str = "") -> Iterator[str]:
        for name, kind in message.fields.items():
            path = prefix + name
            if isinstance(kind, Message) and path not in rows and path not in NOT_SERVED:
                yield from leaves(kind, f"{path}.")
            else:
                yield path

    rows = [row.field for row in TRAINING]
    assert sorted(rows) == sorted(set(leaves(TRAINING_INPUT)) - NOT_SERVED)


NOT_SERVED = {"hyperparameters"}
