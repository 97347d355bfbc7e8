"""What a submission asks of the scheduler, in every dialect: its queue, who may stop it, shares; and the queue as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.dialects.native.schemas.queue import TheQueue
from stoker.api.dialects.vertex_v1.custom_jobs import read_custom_job
from stoker.api.translation import SiteRules
from stoker.app import Stoker, build
from stoker.client.job_body import merge
from stoker.config import read_config
from stoker.core.errors import BadSpec
from stoker.core.options import OPTIONS, Option, with_options
from stoker.core.spec import JobSpec, Program, Retry
from stoker.gpu.drivers.fake import FakeDriver
from tests.api.bodies import JOBS, PACKAGE, a_job_body, a_run, custom, violations
from tests.homes import a_home

RUN = "/stoker/v1/projects/p/jobs:run"
QUEUE = "/stoker/v1/queue"
VERTEX = "/v1/projects/p/locations/us-central1/customJobs"
SITE = """
[queues.research]
weight = 2
[queues.research.quota]
T4 = 4
CPU = 100
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Stoker]:
    """A whole Stoker with a queue beside the usual one. It places jobs, and starts none."""
    home = a_home(tmp_path / "home")
    (home / "site.toml").write_text(SITE)
    flags = {"home": str(home), "fake": "2x4xT4,1x4xV100"}
    made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
    made.loop.enact = lambda *_: []  # type: ignore[assignment]  # nobody tells the engine
    made.loop.tick()
    with made.services.files.write(PACKAGE):
        pass
    yield made
    made.store.close()


@pytest.fixture
def door(lab: Stoker) -> Iterator[TestClient]:
    """Its application."""
    app = make_app(lab.services, lab.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {lab.tokens.token}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers, raise_server_exceptions=False) as client:
        yield client


def spec_of(lab: Stoker, name: str) -> JobSpec:
    return lab.store.job(f"p/{name}").job.spec


def asked(spec: JobSpec) -> tuple[str, int, bool, bool]:
    """What it asks of the scheduler."""
    return spec.queue, spec.priority, spec.preemptible, spec.resumable


def a_custom_job(labels: Any = None, **scheduling: Any) -> dict[str, Any]:
    image = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest"
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "containerSpec": {"imageUri": image, "command": ["python", "-c", "pass"]},
    }
    body: dict[str, Any] = {"displayName": "x", "jobSpec": {"workerPoolSpecs": [pool], "scheduling": scheduling}}
    return body if labels is None else {**body, "labels": labels}


LABELS = {"stoker-queue": "research", "stoker-preemptible": "true", "stoker-resumable": "false", "team": "vision"}


def test_v1_says_it_by_labels(door: TestClient, lab: Stoker) -> None:
    shown = door.post(JOBS, json=a_job_body(labels=LABELS, scheduling={"priority": 7}))
    assert shown.status_code == 200 and shown.json()["labels"] == LABELS
    assert asked(spec_of(lab, "j")) == ("research", 7, True, False)
    door.patch(f"{JOBS}/j?updateMask=labels", json={"labels": {"stoker-queue": "default"}})
    assert asked(spec_of(lab, "j")) == ("research", 7, True, False)
    door.post(JOBS, json=a_job_body("k", labels={"stoker-queue": ""}))
    assert asked(spec_of(lab, "k")) == ("default", 0, False, False)


TIMES = {"stoker-hang-timeout": "2h", "stoker-hold-on-failure": "30m"}


def test_how_long_it_may_be_silent_and_a_place_is_kept_in_every_dialect(door: TestClient, lab: Stoker) -> None:
    door.post(JOBS, json=a_job_body("v1", labels=TIMES))
    door.post(JOBS, json=a_job_body("usual"))
    door.post(RUN, json=a_run("run", hang_seconds=7200, hold_seconds=1800))
    vertex = read_custom_job(a_custom_job(TIMES), "us-central1", SiteRules()).spec
    for limits in (spec_of(lab, "v1").limits, spec_of(lab, "run").limits, vertex.limits):
        assert (limits.hang_seconds, limits.hold_seconds) == (7200.0, 1800.0)
    assert (spec_of(lab, "usual").limits.hang_seconds, spec_of(lab, "usual").limits.hold_seconds) == (3600.0, 0.0)
    answer = door.post(JOBS, json=a_job_body(labels={"stoker-hang-timeout": "soon", "stoker-hold-on-failure": "8d"}))
    found = violations(answer)
    assert "write 90s, 30m, 1h or 2d" in found["job.labels.stoker-hang-timeout"]
    assert "'8d' is too long: at most 7d" in found["job.labels.stoker-hold-on-failure"]


def test_how_often_it_is_tried_again_in_every_dialect(door: TestClient, lab: Stoker) -> None:
    label = {"stoker-max-retries": "7"}
    door.post(JOBS, json=a_job_body("v1", labels=label))
    door.post(JOBS, json=a_job_body("usual"))
    door.post(RUN, json=a_run("run", max_retries=7))
    vertex = read_custom_job(a_custom_job(label), "us-central1", SiteRules()).spec
    for retry in (spec_of(lab, "v1").retry, spec_of(lab, "run").retry, vertex.retry):
        assert (retry.in_place, retry.whole_job, retry.ends_early) == (0, 7, False)
    assert spec_of(lab, "usual").retry == Retry()
    for wrong in ("-1", "some", "1001", "", "²"):
        found = violations(door.post(JOBS, json=a_job_body("w", labels={"stoker-max-retries": wrong})))
        assert "job.labels.stoker-max-retries" in found, wrong


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_comes_through_every_door(door: TestClient, lab: Stoker, option: Option) -> None:
    """By a field of its own, by a label of both foreign dialects, and by the SDK's and the flags' body."""
    expected = with_options(JobSpec(program=Program(), groups=()), {option.name: option.example})
    body = merge(a_job_body("flags"), {option.name: option.example}, name="flags", user_args=None)
    assert door.post(JOBS, json=body).status_code == 200
    assert door.post(RUN, json=a_run("run", **{option.name: option.example})).status_code == 200
    found = [spec_of(lab, "flags"), spec_of(lab, "run")]
    if option.label:
        label = {option.label: option.kind.write(option.example)}
        door.post(JOBS, json=a_job_body("v1", labels=label))
        found += [spec_of(lab, "v1"), read_custom_job(a_custom_job(label), "us-central1", SiteRules()).spec]
    for spec in found:
        same = {"program": replace(spec.program, variables=expected.program.variables), "groups": spec.groups}
        kept = {field: getattr(expected, field) for field in ("queue", "priority", "preemptible", "resumable", "retry")}
        limits = replace(
            spec.limits, hang_seconds=expected.limits.hang_seconds, hold_seconds=expected.limits.hold_seconds
        )
        assert spec == replace(spec, **same, **kept, limits=limits)


WAYS = {
    "stoker-checkpoints": "10m",
    "stoker-distribute": "auto",
    "stoker-precision": "bf16",
    "stoker-learning-rate-rule": "sqrt",
}


def test_how_it_trains_in_every_dialect(door: TestClient, lab: Stoker) -> None:
    door.post(JOBS, json=a_job_body("v1", labels=WAYS))
    door.post(RUN, json=a_run("run", distribute="auto", precision="bf16", learning_rate_rule="sqrt", checkpoints="10m"))
    vertex = read_custom_job(a_custom_job(WAYS), "us-central1", SiteRules()).spec
    for program in (spec_of(lab, "v1").program, spec_of(lab, "run").program, vertex.program):
        assert program.variables == {
            "STOKER_DISTRIBUTE": "auto",
            "STOKER_PRECISION": "bf16",
            "STOKER_LEARNING_RATE_RULE": "sqrt",
            "STOKER_CHECKPOINTS": "600",
        }
    wrong = violations(door.post(JOBS, json=a_job_body(labels={"stoker-distribute": "everywhere"})))
    assert wrong["job.labels.stoker-distribute"].startswith("'everywhere' is none of none, auto, mirrored")
    assert door.post(RUN, json=a_run("bad", precision="int8")).status_code == 400
    wrong = violations(door.post(RUN, json=a_run("bad", checkpoints="0s")))
    assert wrong["checkpoints"].startswith("0 is not a time between two checkpoints")
    wrong = violations(door.post(JOBS, json=a_job_body(labels={"stoker-checkpoints": "often"})))
    assert "auto, none, or a time" in wrong["job.labels.stoker-checkpoints"]


def test_v1_refuses_what_the_site_does_not_have(door: TestClient) -> None:
    answer = door.post(JOBS, json=a_job_body(labels={"stoker-queue": "resaerch"}))
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "did you mean research?" in violations(answer)["job.labels.stoker-queue"]
    answer = door.post(JOBS, json=a_job_body(labels={"stoker-preemptible": "yes", "stoker-resumable": ""}))
    assert set(violations(answer)) == {"job.labels.stoker-preemptible", "job.labels.stoker-resumable"}
    t4 = {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "4"}}
    large = custom(
        masterType="n1-highcpu-16", masterConfig=t4, workerType="n1-highcpu-16", workerConfig=t4, workerCount=1
    )
    answer = door.post(JOBS, json={**large, "labels": {"stoker-queue": "research"}})
    assert "of NVIDIA_TESLA_T4 it may hold 4; the queue default could" in violations(answer)["scale_tier"]
    assert door.post(JOBS, json=large).status_code == 200


def test_vertex_says_it_by_labels_and_its_strategy(door: TestClient, lab: Stoker) -> None:
    shown = door.post(VERTEX, json=a_custom_job(LABELS))
    name = f"custom_job_{shown.json()['name'].rpartition('/')[2]}"
    (job,) = [job for job in lab.store.world().jobs.values()]
    assert name.rpartition("_")[2] in job.id and asked(job.spec) == ("research", 0, True, False)
    answer = door.post(VERTEX, json=a_custom_job({"stoker-queue": "x", "stoker-resumable": "true"}))
    assert list(violations(answer)) == ["labels.stoker-queue"]


def test_spot_may_be_stopped_for_others_and_the_other_strategies_change_nothing() -> None:
    def preemptible(**body: Any) -> bool:
        return read_custom_job(a_custom_job(**body), "us-central1", SiteRules()).spec.preemptible

    assert preemptible(strategy="SPOT") and preemptible(strategy=4)
    assert not any(preemptible(strategy=s) for s in ("STANDARD", "ON_DEMAND", "LOW_COST", "FLEX_START"))
    assert not preemptible(strategy="SPOT", labels={"stoker-preemptible": "false"})
    with pytest.raises(BadSpec, match=r"labels\.stoker-preemptible"):
        preemptible(labels={"stoker-preemptible": "1"})


def test_a_command_says_it_by_fields(door: TestClient, lab: Stoker) -> None:
    body = a_run(queue="research", priority=9, preemptible=True, resumable=True, labels={"stoker-queue": "x"})
    shown = door.post(RUN, json=body).json()
    assert asked(spec_of(lab, "r")) == ("research", 9, True, True)
    assert (shown["queue"], shown["priority"], shown["preemptible"], shown["resumable"]) == ("research", 9, True, True)
    row = door.get("/stoker/v1/projects/p/jobs").json()["jobs"][0]
    assert (row["queue"], row["preemptible"]) == ("research", True)
    assert "did you mean research?" in violations(door.post(RUN, json=a_run("s", queue="reserch")))["queue"]
    answer = door.post(RUN, json=a_run("s", queue="research", gpus=4, gpu_type="T4", workers=1))
    assert "the queue default could" in violations(answer)["gpus"]
    answer = door.post(RUN, json=a_run("s", queue="research", vcpus=60, workers=1))
    assert "of CPU it may hold 100" in violations(answer)["vcpus"]


def test_a_share_of_a_gpu(door: TestClient, lab: Stoker) -> None:
    shown = door.post(RUN, json=a_run(gpus=0.5, gpu_type="T4", workers=2)).json()
    assert [machine["accelerators"] for machine in shown["machines"]] == [0.5, 0.5]
    assert "counted, not enforced" in shown["notes"][0]
    assert spec_of(lab, "r").accelerator_milli == 1500
    assert door.get("/stoker/v1/projects/p/jobs").json()["jobs"][0]["accelerators"] == 1.5
    lab.loop.tick()
    (attempt,) = lab.store.world().attempts.values()
    devices = [(place.node, place.devices) for place in attempt.placements]
    assert len(devices) == 3 and len(set(devices)) == 2, "two share a device"
    assert all(len(own) == 1 for _, own in devices), "each sees a whole one"
    assert sum(node["accelerators_free"] for node in door.get("/stoker/v1/nodes").json()["nodes"]) == 12 - 1.5
    whole = door.post(RUN, json=a_run("s", gpus=2)).json()
    assert whole["notes"] == [] and whole["machines"][0]["accelerators"] == 2


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (1.5, "the nearest are 1 and 2"),
        (0.0005, "the nearest is 0.001"),
        (0.12345, "the nearest is 0.123"),
        (0.00001, "the nearest is 0.001"),
        (0.99999, "the nearest is 1"),
        (-0.5, "greater than or equal to 0"),
        (65, "less than or equal to 64"),
        (True, "valid number"),
        ("1", "valid number"),
    ],
)
def test_a_share_that_is_none(door: TestClient, gpus: Any, words: str) -> None:
    assert words in violations(door.post(RUN, json=a_run(gpus=gpus)))["gpus"]


def test_a_type_of_no_gpus(door: TestClient) -> None:
    assert "no GPUs are asked for" in violations(door.post(RUN, json=a_run(gpu_type="T4")))["gpu_type"]


def test_any_of_several_gpus(door: TestClient, lab: Stoker) -> None:
    for n, types in enumerate(("T4,V100", "v100|t4, nvidia-tesla-t4", "V100")):
        assert door.post(RUN, json=a_run(f"r{n}", gpus=4, gpu_type=types)).status_code == 200
    assert [spec_of(lab, f"r{n}").groups[0].machine.accelerator for n in range(3)] == [
        "NVIDIA_TESLA_T4|NVIDIA_TESLA_V100",
        "NVIDIA_TESLA_V100|NVIDIA_TESLA_T4",
        "NVIDIA_TESLA_V100",
    ]
    answer = door.post(RUN, json=a_run("s", gpus=1, gpu_type="T4,t5,"))
    assert "'t5' is not an accelerator" in answer.text and answer.status_code == 400
    rehearsed = door.post(RUN, json=a_run("t", gpus=1, gpu_type="V100,T4", rehearse=True))
    assert rehearsed.status_code == 200


def test_the_queue(door: TestClient, lab: Stoker) -> None:
    for n in range(3):
        door.post(RUN, json=a_run(f"r{n}", gpus=4, gpu_type="T4", queue="research", priority=n))
    lab.loop.tick()
    door.post("/stoker/v1/projects/q/jobs:run", json=a_run("other", gpus=4, gpu_type="T4", workers=1, preemptible=True))
    lab.loop.tick()
    lab.loop.tick()
    found = door.get(QUEUE).json()
    TypeAdapter(TheQueue).validate_python(found, strict=True, extra="forbid")
    assert (found["policy"], found["share_by"], found["backfill"], found["more"]) == ("priority", "queue", "easy", 0)
    assert "priority" in found["order"]
    default, research = found["queues"]
    assert (default["name"], default["waiting"], default["running"], default["full"]) == ("default", 1, 0, False)
    assert (research["weight"], research["waiting"], research["running"], research["full"]) == (2.0, 2, 1, True)
    held = {one["resource"]: (one["held"], one["quota"], one["borrowed"]) for one in research["resources"]}
    assert held == {"NVIDIA_TESLA_T4": (4.0, 4.0, 0.0), "CPU": (1.0, 100.0, 0.0), "GPU": (4.0, None, 0.0)}
    rows = [(job["position"], job["project"], job["name"], job["key"]) for job in found["waiting"]]
    assert rows == [(1, "q", "other", "priority 0"), (2, "p", "r1", "priority 1"), (3, "p", "r0", "priority 0")]
    first, second, _ = found["waiting"]
    assert (first["share"], second["share"]) == (0.0, 0.25), "half of the T4s, at weight 2"
    assert (first["wants"], first["preemptible"], first["queue"]) == ("2 × 4 NVIDIA_TESLA_T4", True, "default")
    assert (first["reason"]["code"], second["reason"]["code"]) == ("NO_ROOM", "QUOTA")
    part = door.get(QUEUE, params={"project": "p", "limit": 1}).json()
    assert ([job["name"] for job in part["waiting"]], part["more"]) == (["r1"], 1)
    assert door.get(QUEUE, params={"limit": -5}).json()["waiting"] == []
    assert door.get(QUEUE, params={"limit": "x"}).status_code == 400
    assert door.get("/stoker/v1/status").json()["site"].endswith("site.toml")
