"""From a job to what runs: commands, arguments and variables, for packages, plain commands and images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.core.convention import Convention
from stoker.core.job import Attempt, Job, Placement, Replica
from stoker.core.launch import Launch, LaunchFile, Surroundings
from stoker.core.spec import Group, Machine, Program
from stoker.kinds.training import Training
from tests.builders import a_job


def launched(job: Job, **surroundings: Any) -> Launch:
    roles = [(group.role, index) for group in job.spec.groups for index in range(group.count)]
    attempt = Attempt(
        id=f"{job.id}.2",
        job=job.id,
        number=2,
        engine="e",
        placements=tuple(Placement(role=r, index=i, node=f"n-{r}-{i}", devices=("0",)) for r, i in roles),
        placed_at=0.0,
        replicas=tuple(Replica(role=r, index=i) for r, i in roles),
    )
    return Training().launch(job, attempt, Surroundings(python="/py", **surroundings))


def a_packaged_job(**program: Any) -> Job:
    values = {"packages": ("gs://b/a.tar.gz",), "module": "trainer.task", "args": ("--lr", "1"), **program}
    job = a_job(workers=1)
    return replace(job, spec=replace(job.spec, program=Program(**values), job_dir="gs://b/out"))


def test_the_users_arguments_then_the_job_dir_as_two_items() -> None:
    launch = launched(a_packaged_job(), job_dir="/data/out")
    assert launch.replicas[0].command == ("/py", "-m", "trainer.task", "--lr", "1", "--job-dir", "/data/out")
    assert launch.replicas[1].command == launch.replicas[0].command


def test_a_users_own_job_dir_is_kept_too() -> None:
    launch = launched(a_packaged_job(args=("--job-dir", "mine")), job_dir="/data/out")
    assert launch.replicas[0].command[3:] == ("--job-dir", "mine", "--job-dir", "/data/out")


def test_no_job_dir_no_argument_and_no_variables() -> None:
    launch = launched(a_packaged_job())
    assert launch.replicas[0].command == ("/py", "-m", "trainer.task", "--lr", "1")
    assert "AIP_MODEL_DIR" not in launch.replicas[0].env


def test_a_plain_command_is_run_as_it_was_typed() -> None:
    job = a_job()
    job = replace(job, spec=replace(job.spec, program=Program(command=("python", "a b.py")), job_dir="gs://b/out"))
    assert launched(job, job_dir="/data/out").replicas[0].command == ("python", "a b.py")


def test_what_options_set_is_there_and_the_programs_own_variables_come_over_it() -> None:
    options = {"STOKER_PRECISION": "bf16", "STOKER_DISTRIBUTE": "auto"}
    launch = launched(a_packaged_job(variables=options, env={"STOKER_PRECISION": "mine"}))
    for replica in launch.replicas:
        assert (replica.env["STOKER_DISTRIBUTE"], replica.env["STOKER_PRECISION"]) == ("auto", "mine")


def test_the_variables_of_the_job() -> None:
    job = a_packaged_job(env={"MINE": "1", "STOKER_JOB_NAME": "cannot hide"})
    env = launched(job, job_dir="/data/out/").replicas[1].env
    assert env == {
        "CLOUD_ML_JOB_ID": "j",
        "CLOUD_ML_PROJECT_ID": "p",
        "CLOUD_ML_REGION": "us-central1",
        "STOKER_JOB_ID": "p/j",
        "STOKER_JOB_NAME": "cannot hide",
        "STOKER_PROJECT": "p",
        "STOKER_ATTEMPT": "2",
        "STOKER_JOB_DIR": "/data/out/",
        "STOKER_CHECKPOINT_DIR": "/data/out/checkpoints",
        "AIP_MODEL_DIR": "/data/out/model/",
        "AIP_CHECKPOINT_DIR": "/data/out/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": "/data/out/logs/",
        "MINE": "1",
    }


def test_files_and_limits_are_passed_on() -> None:
    file = LaunchFile(number=0, name="a.tar.gz", uri="gs://b/a.tar.gz", stamp="s")
    launch = launched(a_packaged_job(), packages=(file,))
    assert (launch.packages, launch.source, launch.number, launch.grace_seconds, launch.in_place) == (
        (file,),
        (),
        2,
        30.0,
        5,
    )


def an_image_job(**group: Any) -> Job:
    job = a_job()
    groups = (Group(role="chief", count=1, machine=Machine(), image="gcr.io/p/i", **group),)
    return replace(job, spec=replace(job.spec, program=Program(args=("--a",)), groups=groups))


IMAGES = {"gcr.io/p/i": ("/env/python", "-m", "entry")}


def test_an_image_is_stood_in_for_by_its_environment_and_entry_point() -> None:
    (replica,) = launched(an_image_job(), images=IMAGES, job_dir="/out").replicas
    assert (replica.python, replica.is_container) == ("/env/python", True)
    assert replica.command == ("/env/python", "-m", "entry", "--a", "--job-dir", "/out")


def test_a_containers_own_command_and_arguments_replace_the_images() -> None:
    (replica,) = launched(an_image_job(command=("sh", "-c"), args=("true",)), images=IMAGES).replicas
    assert replica.command == ("sh", "-c", "true")


def a_custom_job(**group: Any) -> Job:
    job = an_image_job(**group)
    return replace(job, id="p/custom_42", spec=replace(job.spec, convention=Convention.VERTEX, job_dir="gs://b/out"))


def test_a_module_in_an_image_is_run_by_the_images_python() -> None:
    (replica,) = launched(a_custom_job(module="trainer.task", args=("--b",)), images=IMAGES, job_dir="/out").replicas
    assert replica.command == ("/env/python", "-m", "trainer.task", "--b")  # and Vertex appends no --job-dir


def test_a_custom_job_is_known_to_its_program_by_its_number() -> None:
    env = launched(a_custom_job(), images=IMAGES).replicas[0].env
    assert (env["CLOUD_ML_JOB_ID"], env["STOKER_JOB_NAME"]) == ("42", "custom_42")


def test_variables_of_a_custom_job_refer_to_each_other() -> None:
    given = {"A": "1", "B": "$(A)2", "C": "$(AIP_MODEL_DIR)", "D": "$$(A)", "E": "$(NONE) $(Z)", "Z": "/gcs/bkt/x"}
    env = launched(a_custom_job(env=given), images=IMAGES, job_dir="/out", buckets={"bkt": "/b"}).replicas[0].env
    assert [env[name] for name in given] == ["1", "12", "/out/model/", "$(A)", "$(NONE) $(Z)", "/b/x"]


def test_only_vertex_has_references() -> None:
    env = launched(an_image_job(env={"A": "1", "B": "$(A)"}), images=IMAGES).replicas[0].env
    assert env["B"] == "$(A)"


def test_mounts_in_a_containers_command_are_folders() -> None:
    job = a_custom_job(command=("sh", "-c", "cat /gcs/bkt/x"))
    assert launched(job, images=IMAGES, buckets={"bkt": "/b"}).replicas[0].command == ("sh", "-c", "cat /b/x", "--a")
