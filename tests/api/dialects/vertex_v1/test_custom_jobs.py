"""Vertex custom jobs: what a body asks for, how a job is shown, and every refusal with its field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.cloud import aiplatform_v1
from starlette.testclient import TestClient

from stoker.api.dialects.vertex_v1.custom_jobs import POOL as POOL_ROWS
from stoker.api.dialects.vertex_v1.custom_jobs import SPEC, read_custom_job
from stoker.api.dialects.vertex_v1.messages import (
    ACCELERATOR_TYPE,
    CUSTOM_JOB_SPEC,
    JOB_STATE,
    RESERVATION_AFFINITY,
    SCHEDULING,
    WORKER_POOL_SPEC,
)
from stoker.api.proto_json import Message
from stoker.api.translation import SiteRules
from stoker.app import Stoker
from stoker.core.changes import MoveJob
from stoker.core.convention import Convention
from stoker.core.errors import BadSpec
from stoker.core.spec import JobSpec
from stoker.core.states import JobState
from tests.api.bodies import PACKAGE, violations

JOBS = "/v1/projects/p/locations/us-central1/customJobs"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest"


def a_pool(**changes: Any) -> dict[str, Any]:
    """A worker pool that runs a container."""
    whole = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": IMAGE, "command": ["python", "-c", "pass"]},
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def a_package_pool(**spec: Any) -> dict[str, Any]:
    """A worker pool that runs a module."""
    spec = {"executorImageUri": IMAGE, "packageUris": [PACKAGE], "pythonModule": "trainer.task", **spec}
    return a_pool(containerSpec=None, pythonPackageSpec=spec)


def a_body(*pools: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"displayName": "vx", "jobSpec": {"workerPoolSpecs": list(pools) or [a_pool()], **spec}}


def spec_of(body: dict[str, Any], location: str = "us-central1") -> JobSpec:
    return read_custom_job(body, location, SiteRules()).spec


def wrong(body: Any, location: str = "us-central1") -> list[str]:
    with pytest.raises(BadSpec) as refused:
        read_custom_job(body, location, SiteRules())
    return [violation.field for violation in refused.value.violations]


def test_pools_are_the_roles_in_their_order() -> None:
    t4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2}
    spec = spec_of(a_body(a_pool(), a_pool(replicaCount=3, machineSpec=t4), {}, a_pool(replicaCount="1")))
    found = [(g.role, g.count, g.machine.type, g.machine.accelerator, g.machine.accelerators) for g in spec.groups]
    assert found == [
        ("chief", 1, "n1-standard-4", "", 0),
        ("worker", 3, "n1-standard-8", "NVIDIA_TESLA_T4", 2),
        ("evaluator", 1, "n1-standard-4", "", 0),
    ]
    assert (spec.convention, spec.primary_name, spec.region) == (Convention.VERTEX, "chief", "us-central1")


def test_a_container_has_its_own_command_arguments_and_variables() -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "B"}]
    container = {"imageUri": "gcr.io/p/i", "command": ["sh", "-c"], "args": ["x"], "env": variables}
    (group,) = spec_of(a_body(a_pool(containerSpec=container))).groups
    assert (group.image, group.command, group.args, group.env) == (
        "gcr.io/p/i",
        ("sh", "-c"),
        ("x",),
        {"A": "1", "B": ""},
    )


def test_a_package_has_its_module_and_all_pools_their_packages() -> None:
    spec = spec_of(
        a_body(a_package_pool(args=["--a"]), a_package_pool(packageUris=[PACKAGE, "gs://bkt/b.whl"], pythonModule="w"))
    )
    assert [(g.module, g.args, g.image) for g in spec.groups] == [("trainer.task", ("--a",), IMAGE), ("w", (), IMAGE)]
    assert spec.program.packages == (PACKAGE, "gs://bkt/b.whl")


@pytest.mark.parametrize(
    ("scheduling", "running", "in_place", "whole_job"),
    [
        ({}, 604800.0, 5, 3),
        ({"timeout": "7200s"}, 7200.0, 5, 3),
        ({"timeout": "0s"}, 604800.0, 5, 3),
        ({"restartJobOnWorkerRestart": True}, 604800.0, 0, 3),
        ({"disableRetries": True, "restartJobOnWorkerRestart": True}, 604800.0, 0, 0),
        ({"strategy": 4, "maxWaitDuration": "60s"}, 604800.0, 5, 3),
    ],
)
def test_scheduling(scheduling: dict[str, Any], running: float, in_place: int, whole_job: int) -> None:
    spec = spec_of(a_body(scheduling=scheduling))
    assert (spec.limits.running_seconds, spec.retry.in_place, spec.retry.whole_job) == (running, in_place, whole_job)


def test_the_output_directory_is_the_job_dir() -> None:
    assert spec_of(a_body(baseOutputDirectory={"outputUriPrefix": "gs://bkt/out"})).job_dir == "gs://bkt/out"


POOL = "job_spec.worker_pool_specs[0]"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["display_name", "job_spec.worker_pool_specs"]),
        ([], ["custom_job"]),
        (a_body() | {"displayName": "x" * 129}, ["display_name"]),
        (a_body() | {"labels": {"A": "b"}}, ["labels.A"]),
        (a_body() | {"display": "x"}, ["custom_job"]),
        (a_body(nonsense=1), ["job_spec"]),
        (a_body({}), ["job_spec.worker_pool_specs"]),
        (a_body({}, a_pool()), ["job_spec.worker_pool_specs"]),
        (a_body(a_pool(replicaCount=2)), ["job_spec.worker_pool_specs"]),
        (a_body(*[a_pool()] * 5), ["job_spec.worker_pool_specs"]),
        (a_body(a_pool(), a_pool(replicaCount=-1)), ["job_spec.worker_pool_specs[1].replica_count"]),
        (a_body(a_pool(), a_pool(replicaCount=10**9)), ["job_spec.worker_pool_specs[1].replica_count"]),
        (a_body(a_pool(containerSpec=None)), [f"{POOL}.container_spec"]),
        (a_body(a_pool(pythonPackageSpec=a_package_pool()["pythonPackageSpec"])), [f"{POOL}.container_spec"]),
        (a_body(a_pool(containerSpec={})), [f"{POOL}.container_spec.image_uri"]),
        (a_body(a_package_pool(pythonModule="")), [f"{POOL}.python_package_spec.python_module"]),
        (a_body(a_package_pool(packageUris=[])), [f"{POOL}.python_package_spec.package_uris"]),
        (a_body(a_package_pool(packageUris=[PACKAGE] * 101)), [f"{POOL}.python_package_spec.package_uris"]),
        (a_body(a_package_pool(packageUris=["x.whl"])), [f"{POOL}.python_package_spec.package_uris"]),
        (a_body(a_package_pool(env=[{"name": "A=B"}])), [f"{POOL}.python_package_spec.env"]),
        (a_body(a_package_pool(env=[{"name": "A"}] * 101)), [f"{POOL}.python_package_spec.env"]),
        (a_body(a_pool(machineSpec={})), [f"{POOL}.machine_spec.machine_type"]),
        (a_body(a_pool(machineSpec=None)), [f"{POOL}.machine_spec.machine_type"]),
        (a_body(a_pool(machineSpec={"machineType": "n1-standard-5"})), [f"{POOL}.machine_spec.machine_type"]),
        (
            a_body(a_pool(machineSpec={"machineType": "n1-standard-4", "acceleratorType": 5, "acceleratorCount": 3})),
            [f"{POOL}.machine_spec.accelerator_count"],
        ),
        (
            a_body(a_pool(machineSpec={"machineType": "n1-standard-4", "acceleratorType": "T4"})),
            [f"{POOL}.machine_spec.accelerator_type"],
        ),
        (
            a_body(a_pool(machineSpec={"machineType": "n1-standard-4", "acceleratorType": 0, "acceleratorCount": 2})),
            [f"{POOL}.machine_spec.accelerator_type"],
        ),
        (a_body(a_pool(diskSpec={"bootDiskType": "floppy"})), [f"{POOL}.disk_spec.boot_disk_type"]),
        (a_body(a_pool(nfsMounts=[{"server": "s", "path": "/p", "mountPoint": "m"}])), [f"{POOL}.nfs_mounts"]),
        (a_body(baseOutputDirectory={"outputUriPrefix": "x"}), ["job_spec.base_output_directory.output_uri_prefix"]),
    ],
)
def test_refused_with_its_field(body: Any, fields: list[str]) -> None:
    assert wrong(body) == fields


def test_an_unknown_location_is_refused() -> None:
    assert wrong(a_body(), "nowhere") == ["parent"]


def test_the_numbers_are_those_of_the_real_client() -> None:
    for ours, theirs in (
        (JOB_STATE, aiplatform_v1.JobState),
        (ACCELERATOR_TYPE, aiplatform_v1.AcceleratorType),
        (SCHEDULING.fields["strategy"], aiplatform_v1.Scheduling.Strategy),
        (RESERVATION_AFFINITY.fields["reservationAffinityType"], aiplatform_v1.ReservationAffinity.Type),
    ):
        assert ours.numbers == {e.name: e.value for e in theirs}  # type: ignore[union-attr]


# Over HTTP.


def created(http: TestClient, body: dict[str, Any] | None = None, path: str = JOBS) -> dict[str, Any]:
    answer = http.post(path, json=body or a_body())
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def test_create_get_cancel_and_delete(http: TestClient, stoker: Stoker) -> None:
    body = a_body() | {"labels": {"team": "ml"}}
    shown = created(http, body)
    assert (
        shown["name"].startswith("projects/p/locations/us-central1/customJobs/")
        and shown["state"] == "JOB_STATE_QUEUED"
    )
    assert (shown["displayName"], shown["labels"], shown["jobSpec"]) == ("vx", {"team": "ml"}, body["jobSpec"])
    path = f"/v1/{shown['name']}"
    assert http.get(path).json() == shown
    refused = http.delete(path)
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert http.post(f"{path}:cancel", json={}).json() == {}
    stoker.loop.settle_down()
    ended = http.get(path).json()
    assert (ended["state"], ended["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    assert ended["endTime"] and ended["error"]["message"]
    operation = http.delete(path).json()
    assert operation["done"] and "error" not in operation
    assert http.get(path).status_code == http.delete(path).status_code == 404
    assert http.get(JOBS).json() == {}


def test_enums_go_as_numbers_where_the_client_asks_for_it(http: TestClient) -> None:
    machine = {"machineType": "n1-highcpu-16", "acceleratorType": 5, "acceleratorCount": 4}
    shown = created(http, a_body(a_pool(machineSpec=machine)))
    assert shown["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_T4"
    asked = {"$alt": "json;enum-encoding=int"}
    numbered = http.get(f"/v1/{shown['name']}", params=asked).json()
    assert numbered["state"] == 1
    assert numbered["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == 5
    assert http.get(JOBS, params=asked).json()["customJobs"] == [numbered]


def test_a_failed_job_has_an_error(http: TestClient, stoker: Stoker) -> None:
    name = created(http)["name"]
    job = f"p/custom_{name.rpartition('/')[2]}"
    failed = MoveJob(job=job, before=JobState.QUEUED, after=JobState.FAILED, at=1e9, message="it broke")
    stoker.store.commit([failed], by="loop")
    shown = http.get(f"/v1/{name}").json()
    assert shown["error"] == {"code": 3, "message": "it broke"}
    assert shown["endTime"] == "2001-09-09T01:46:40Z"


def test_lists_are_of_one_location_and_filtered(http: TestClient) -> None:
    with_label = created(http, a_body() | {"displayName": "first", "labels": {"a": "1"}})["name"]
    second = created(http, a_body() | {"displayName": "second"})["name"]
    europe = created(http, path=JOBS.replace("us-central1", "europe-west1"))["name"]

    def found(filter: str = "", path: str = JOBS, **more: Any) -> list[str]:
        jobs = http.get(path, params={"filter": filter, **more}).json().get("customJobs", [])
        return [job["name"] for job in jobs]

    assert found() == [second, with_label]
    assert found(path=JOBS.replace("us-central1", "-")) == [europe, second, with_label]
    assert found('display_name="first"') == found("labels.a=1") == found('display_name:"fir*"') == [with_label]
    assert found('NOT display_name="first" AND state="JOB_STATE_QUEUED"') == [second]
    assert found('state="JOB_STATE_PAUSED"') == found("state=JOB_STATE_FAILED") == []
    assert found('create_time>"2001-01-01T00:00:00Z"', pageSize=1) == [second]
    for mask in ("name,jobSpec.workerPoolSpecs", "name,job_spec.worker_pool_specs", "name,jobSpec/workerPoolSpecs"):
        masked = http.get(JOBS, params={"readMask": mask}).json()["customJobs"][0]
        assert set(masked) == {"name", "jobSpec"} and set(masked["jobSpec"]) == {"workerPoolSpecs"}
    assert list(violations(http.get(JOBS, params={"readMask": "a(b"}))) == ["read_mask"]
    assert list(violations(http.get(JOBS, params={"filter": "state=RUNNING"}))) == ["filter"]


@pytest.mark.parametrize("number", ["1", "x", "1:nothing", "9" * 40, "٣"])
def test_there_is_no_such_job(http: TestClient, number: str) -> None:
    assert http.get(f"{JOBS}/{number}").status_code == 404
    assert http.delete(f"{JOBS}/{number}").status_code == 404
    assert http.post(f"{JOBS}/{number}:cancel", json={}).status_code == 404


def test_a_job_is_found_in_its_own_location_only(http: TestClient) -> None:
    name = created(http)["name"]
    assert http.get(f"/v1/{name.replace('us-central1', 'europe-west1')}").status_code == 404


def test_an_image_that_nothing_stands_in_for_is_refused(http: TestClient) -> None:
    answer = http.post(JOBS, json=a_body(a_pool(containerSpec={"imageUri": "gcr.io/p/i"})))
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "gcr.io/p/i" in violations(answer)["job_spec.worker_pool_specs"]


def test_what_stands_beside_custom_jobs_is_not_served(http: TestClient) -> None:
    for path in ("trainingPipelines", "endpoints/1:predict", "pipelineJobs/1"):
        answer = http.request("POST", f"/v1/projects/p/locations/us-central1/{path}", json={})
        assert answer.json()["error"]["status"] == "UNIMPLEMENTED"


def test_every_field_has_one_row() -> None:
    """So that none is forgotten: what the messages have, the tables have, once."""

    def leaves(message: Message, known: set[str], prefix: str = "") -> Iterator[str]:
        for name, kind in message.fields.items():
            if isinstance(kind, Message) and (prefix + name not in known or name == "containerSpec"):
                yield from leaves(kind, known, f"{prefix}{name}.")
            else:
                yield prefix + name

    pool = [row.field for row in POOL_ROWS if row.field != "containerSpec"]  # the row of its being there at all
    assert sorted(pool) == sorted(leaves(WORKER_POOL_SPEC, set(pool)))
    spec = [row.field for row in SPEC]
    assert sorted(spec) == sorted(leaves(CUSTOM_JOB_SPEC, set(spec)))
