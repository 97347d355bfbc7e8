"""gcloud's flags of `ai-platform jobs submit training`: all of them, and which wins."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from stoker.cli.job_flags import UserArgsCommand, job_flags
from stoker.client.job_body import merge
from stoker.core.errors import BadSpec

ALL_FLAGS = """
    --scale-tier custom --region us-central1
    --master-machine-type n1-highcpu-16 --master-accelerator count=4,type=nvidia-tesla-t4 --master-image-uri gcr.io/p/m
    --worker-machine-type n1-highcpu-32 --worker-count 9 --worker-accelerator type=nvidia-tesla-v100,count=2
    --worker-image-uri gcr.io/p/w
    --parameter-server-machine-type n1-highmem-8 --parameter-server-count 3
    --parameter-server-accelerator count=1,type=nvidia-tesla-k80 --parameter-server-image-uri gcr.io/p/ps
    --module-name trainer.task --job-dir gs://bucket/out --runtime-version 2.11 --python-version 3.7
    --use-chief-in-tf-config true --service-account a@b.iam --network projects/1/global/networks/n --enable-web-access
    --tpu-tf-version 2.9 --labels team=ml,stage=x
    --kms-key k --kms-keyring r --kms-location l --kms-project p
""".split()

GOLDEN: dict[str, Any] = {
    "jobId": "my_job",
    "labels": {"team": "ml", "stage": "x"},
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": "n1-highcpu-16",
        "masterConfig": {
            "acceleratorConfig": {"count": "4", "type": "NVIDIA_TESLA_T4"},
            "imageUri": "gcr.io/p/m",
        },
        "workerType": "n1-highcpu-32",
        "workerCount": "9",
        "workerConfig": {
            "acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_V100"},
            "imageUri": "gcr.io/p/w",
            "tpuTfVersion": "2.9",
        },
        "parameterServerType": "n1-highmem-8",
        "parameterServerCount": "3",
        "parameterServerConfig": {
            "acceleratorConfig": {"count": "1", "type": "NVIDIA_TESLA_K80"},
            "imageUri": "gcr.io/p/ps",
        },
        "pythonModule": "trainer.task",
        "jobDir": "gs://bucket/out",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "useChiefInTfConfig": True,
        "serviceAccount": "a@b.iam",
        "network": "projects/1/global/networks/n",
        "enableWebAccess": True,
        "encryptionConfig": {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
        "args": ["--user_arg_1", "value_1", "--", "--region", "mars"],
    },
}


def parsed(words: list[str]) -> tuple[dict[str, Any], str | None, list[str] | None]:
    """The flags, the name and the program's arguments of a command line. Raises click's own errors."""
    found: dict[str, Any] = {}

    @click.command(cls=UserArgsCommand)
    @click.argument("job", required=False)
    @job_flags
    def command(job: str | None, **flags: Any) -> None:
        found.update(flags=flags, job=job, args=click.get_current_context().meta["user_args"])

    ended = CliRunner().invoke(command, words, standalone_mode=False)
    if ended.exception:
        raise ended.exception
    return found["flags"], found["job"], found["args"]


def merged(words: list[str], file: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Job of a file and a command line."""
    flags, name, args = parsed(words)
    return merge(file or {}, flags, name=name, user_args=args)


def test_all_flags_at_once() -> None:
    assert merged(["my_job", *ALL_FLAGS, "--", *GOLDEN["trainingInput"]["args"]]) == GOLDEN


def test_a_flag_beats_the_file_in_every_field() -> None:
    other = {
        "acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_P4"},
        "imageUri": "other",
        "diskConfig": {"bootDiskSizeGb": 7},
    }
    file = {
        "jobId": "other",
        "labels": {"team": "other", "more": "other"},
        "trainingInput": {
            **{name: "other" for name, value in GOLDEN["trainingInput"].items() if isinstance(value, str | bool)},
            **dict.fromkeys(("masterConfig", "workerConfig", "parameterServerConfig"), other),
            "encryptionConfig": {"kmsKeyName": "other"},
            "args": ["other"],
            "scheduling": {"priority": 3},
            "evaluatorCount": 1,
        },
    }
    found = merged(["my_job", *ALL_FLAGS, "--", *GOLDEN["trainingInput"]["args"]], file)
    training = found["trainingInput"]
    assert training.pop("scheduling") == {"priority": 3} and training.pop("evaluatorCount") == 1  # no flag: they stay
    for role in ("master", "worker", "parameterServer"):
        assert training[f"{role}Config"].pop("diskConfig") == {"bootDiskSizeGb": 7}
    assert found == GOLDEN
    assert file["trainingInput"]["args"] == ["other"]  # the file's own body is not written to


def test_a_file_alone_is_left_as_it_is() -> None:
    file = {
        "jobId": "j",
        "labels": {"a": "b"},
        "trainingInput": {"args": ["x"], "scaleTier": "BASIC", "regionn": "typo"},
    }
    assert merged([], file) == file


def test_nothing_asks_for_nothing() -> None:
    assert merged([]) == {"trainingInput": {}}


def test_a_file_in_the_other_spelling_is_beaten_too() -> None:
    file = {
        "job_id": "other",
        "training_input": {"master_type": "x", "master_config": {"accelerator_config": {"count": 1}}},
    }
    found = merged(["j", "--master-machine-type", "n1", "--master-accelerator", "count=2,type=t4"], file)
    assert found == {
        "jobId": "j",
        "trainingInput": {
            "masterType": "n1",
            "masterConfig": {"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}},
        },
    }


@pytest.mark.parametrize("training", ["a text", [], 7, False])
def test_an_input_that_is_no_table_is_left_to_the_rules(training: Any) -> None:
    assert merged(["j", "--region", "r"], {"trainingInput": training})["trainingInput"] == training


def test_what_stands_after_the_dashes_is_the_programs() -> None:
    file = {"trainingInput": {"args": ["from", "file"]}}
    assert merged(["j"], file)["trainingInput"]["args"] == ["from", "file"]
    assert merged(["j", "--"], file)["trainingInput"]["args"] == []
    assert merged(["j", "--", "--job-dir", "x"], file)["trainingInput"]["args"] == ["--job-dir", "x"]
    assert "jobDir" not in merged(["j", "--", "--job-dir", "x"])["trainingInput"]


@pytest.mark.parametrize(
    ("given", "tier"),
    [
        ("basic", "BASIC"),
        ("BASIC_GPU", "BASIC_GPU"),
        ("basic-gpu", "BASIC_GPU"),
        ("Custom", "CUSTOM"),
        ("standard-1", "STANDARD_1"),
    ],
)
def test_a_tier_in_either_spelling(given: str, tier: str) -> None:
    assert merged(["--scale-tier", given])["trainingInput"]["scaleTier"] == tier


@pytest.mark.parametrize(
    ("given", "told"), [("true", True), ("True", True), ("false", False), ("no", False), (None, True)]
)
def test_use_chief_in_tf_config(given: str | None, told: bool) -> None:
    words = ["--use-chief-in-tf-config" + (f"={given}" if given else "")]
    assert merged(words)["trainingInput"]["useChiefInTfConfig"] is told


def test_web_access_can_be_denied() -> None:
    assert merged(["--no-enable-web-access"])["trainingInput"]["enableWebAccess"] is False


def test_labels_replace_the_files() -> None:
    assert merged(["--labels", "a=b"], {"labels": {"c": "d"}})["labels"] == {"a": "b"}
    assert merged(["--labels", ""], {"labels": {"c": "d"}})["labels"] == {}


@pytest.mark.parametrize("name", ["nvidia-tesla-t4", "NVIDIA_TESLA_T4", "t4", "T4"])
def test_an_accelerator_by_any_of_its_names(name: str) -> None:
    found = merged(["--master-accelerator", f"count=1,type={name}"])["trainingInput"]["masterConfig"]
    assert found == {"acceleratorConfig": {"count": "1", "type": "NVIDIA_TESLA_T4"}}


def test_an_accelerator_that_is_none_is_left_to_the_rules() -> None:
    found = merged(["--master-accelerator", "count=1,type=nvidia-tesla-t5"])["trainingInput"]["masterConfig"]
    assert found["acceleratorConfig"]["type"] == "NVIDIA_TESLA_T5"


@pytest.mark.parametrize(
    "words",
    [
        ["--master-accelerator", "count=4"],
        ["--master-accelerator", "type=t4"],
        ["--master-accelerator", "4"],
        ["--master-accelerator", "count=0,type=t4"],
        ["--master-accelerator", "count=x,type=t4"],
        ["--master-accelerator", "count=1,type=t4,colour=red"],
        ["--worker-count", "0"],
        ["--worker-count", "two"],
        ["--parameter-server-count", "-1"],
        ["--scale-tier", "huge"],
        ["--labels", "a"],
        ["--use-chief-in-tf-config=perhaps"],
        ["--no-such-flag"],
        ["a", "b"],
    ],
)
def test_a_flag_that_is_wrong_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        merged(words)


def test_a_kms_key_in_full_needs_no_more() -> None:
    full = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    assert merged(["--kms-key", full])["trainingInput"]["encryptionConfig"] == {"kmsKeyName": full}
    with pytest.raises(BadSpec, match="--kms-keyring, --kms-project"):
        merged(["--kms-key", "k", "--kms-location", "l"])


@pytest.mark.parametrize("flag", ["--worker-machine-type=n1", "--worker-accelerator=count=1,type=t4"])
def test_workers_that_nobody_counts_are_not_forgotten_silently(flag: str) -> None:
    with pytest.raises(BadSpec, match="needs --worker-count"):
        merged([flag])
    assert merged([flag], {"trainingInput": {"workerCount": 2}})["trainingInput"]["workerCount"] == 2
    assert merged([flag, "--worker-count", "3"])["trainingInput"]["workerCount"] == "3"


def test_how_it_trains_becomes_labels() -> None:
    body = merged(["--distribute", "auto", "--precision", "bf16", "--learning-rate-rule", "linear"])
    assert body["labels"] == {
        "stoker-distribute": "auto",
        "stoker-precision": "bf16",
        "stoker-learning-rate-rule": "linear",
    }


def test_times_become_labels() -> None:
    body = merge({}, {"hang_seconds": 7200.0, "hold_seconds": 0.5}, name="j", user_args=None)
    assert body["labels"] == {"stoker-hang-timeout": "7200s", "stoker-hold-on-failure": "1s"}
    assert merge({}, {"max_retries": 0}, name="j", user_args=None)["labels"] == {"stoker-max-retries": "0"}
