"""A real client of Vertex AI's API, unmodified, over REST: google-cloud-aiplatform's JobServiceClient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform_v1 as vertex

from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live
FLAGS = ("--no-auth", "--fake=2x4xT4")
PARENT = "projects/vertex-client/locations/us-central1"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest"


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[vertex.JobServiceClient]:
    options = {"api_endpoint": server.found.url}
    made = vertex.JobServiceClient(transport="rest", credentials=AnonymousCredentials(), client_options=options)
    yield made
    made.transport.close()


def a_job(name: str, *command: str, accelerators: int = 0, workers: int = 0) -> vertex.CustomJob:
    machine = vertex.MachineSpec(machine_type="n1-standard-8")
    if accelerators:
        machine.accelerator_type = vertex.AcceleratorType.NVIDIA_TESLA_T4
        machine.accelerator_count = accelerators
    container = vertex.ContainerSpec(image_uri=IMAGE, command=list(command))
    pools = [
        vertex.WorkerPoolSpec(machine_spec=machine, replica_count=count, container_spec=container)
        for count in (1, workers)
        if count
    ]
    return vertex.CustomJob(display_name=name, job_spec=vertex.CustomJobSpec(worker_pool_specs=pools))


def ended(client: vertex.JobServiceClient, name: str) -> vertex.CustomJob:
    """The job, once it has ended."""

    def look() -> Any:
        job = client.get_custom_job(name=name)
        return job.end_time and job

    found: vertex.CustomJob = wait_until(look)
    return found


def test_a_job_goes_there_and_comes_back_as_it_was(client: vertex.JobServiceClient) -> None:
    asked = a_job("numbers", "python", "-c", "pass", accelerators=2, workers=1)
    created = client.create_custom_job(parent=PARENT, custom_job=asked)
    assert created.job_spec == asked.job_spec and created.state in (1, 2)
    job = ended(client, created.name)
    assert job.state is vertex.JobState.JOB_STATE_SUCCEEDED and not job.error.message
    assert job.create_time <= job.start_time <= job.end_time <= job.update_time


def test_a_program_that_fails_is_told_by_its_pool(client: vertex.JobServiceClient) -> None:
    created = client.create_custom_job(parent=PARENT, custom_job=a_job("fails", "python", "-c", "raise SystemExit(7)"))
    job = ended(client, created.name)
    assert job.state is vertex.JobState.JOB_STATE_FAILED and job.error.code == 3
    assert job.error.message.startswith("The replica workerpool0-0 exited with a non-zero status of 7.")


def test_a_refusal_carries_its_violations(client: vertex.JobServiceClient) -> None:
    with pytest.raises(exceptions.BadRequest) as refused:
        client.create_custom_job(parent=PARENT, custom_job=a_job("three", "true", accelerators=3))
    (violation,) = refused.value.details[0]["fieldViolations"]
    assert violation["field"] == "job_spec.worker_pool_specs[0].machine_spec.accelerator_count"
    with pytest.raises(exceptions.NotFound):
        client.get_custom_job(name=f"{PARENT}/customJobs/1")


def test_list_cancel_and_delete(client: vertex.JobServiceClient) -> None:
    names = [
        client.create_custom_job(parent=PARENT, custom_job=a_job("sleeper", "sleep", "100")).name for _ in range(3)
    ]
    wanted = {"parent": PARENT, "filter": 'display_name="sleeper"', "page_size": 2}
    assert [job.name for job in client.list_custom_jobs(wanted)] == names[::-1]
    for name in names:
        client.cancel_custom_job(name=name)
        job = ended(client, name)
        assert job.state is vertex.JobState.JOB_STATE_CANCELLED and job.error.code == 1
        client.delete_custom_job(name=name).result()
    assert not list(client.list_custom_jobs(wanted))
