"""How a job trains, as it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.control.submission import Submission
from stoker.core.changes import Open
from stoker.core.job import Attempt, Placement, Replica, Request
from stoker.core.spec import JobSpec
from tests.builders import a_spec

NO_LABELS: Mapping[str, str] = {}
ALONE = a_spec()
URL = "/stoker/v1/projects/p/jobs/j/steps"


def tell(stoker: Stoker, attempt: int, *windows: dict[str, Any], job: str = "j") -> None:
    """The chief of an attempt tells something."""
    told = [{"n": n, "t": 1.0, "s": "steps", "m": json.dumps(window)} for n, window in enumerate(windows, 1)]
    stoker.services.logs.append(f"p/{job}.{attempt}", "chief-0", told)


def window(step: int, steps: int, **more: Any) -> dict[str, Any]:
    return {"t": 5.0, "step": step, "steps": steps, "seconds": 2.0, "longest": 0.5, "examples": 64, **more}


def submit(stoker: Stoker, name: str = "j", labels: Mapping[str, str] = NO_LABELS, spec: JobSpec = ALONE) -> None:
    """A job with one attempt."""
    request = Request(dialect="x", body="{}")
    stoker.services.commands.submit(Submission("p", name, spec, request=request, labels=dict(labels), owner="u"))
    place = Placement(role="chief", index=0, node="local")
    replicas = (Replica(role="chief", index=0),)
    stoker.store.commit(
        [
            Open(
                attempt=Attempt(
                    id=f"p/{name}.1",
                    job=f"p/{name}",
                    number=1,
                    engine="local",
                    placements=(place,),
                    placed_at=0.0,
                    replicas=replicas,
                )
            )
        ],
        by="loop",
    )


NO_SAVES = {
    "step": None,
    "at": None,
    "seconds": None,
    "stall_seconds": None,
    "bytes": 0,
    "count": 0,
    "resumed_step": None,
    "went_on_at": None,
}


def test_checkpoints_and_where_it_went_on(http: TestClient, stoker: Stoker) -> None:
    submit(stoker)
    saved = {"at": 7.0, "saved": 5, "seconds": 0.5, "stall": 0.1, "bytes": 9}
    tell(
        stoker,
        1,
        window(1, 1),
        saved,
        window(6, 5),
        {"at": 9.0, "resumed": 5},
        {**window(1, 1), "t": 11.0},
        window(3, 2),
    )
    found = http.get(URL).json()
    assert found["saves"] == {
        "step": 5, "at": 7.0, "seconds": 0.5, "stall_seconds": 0.1, "bytes": 9, "count": 1, "resumed_step": 5, "went_on_at": 11.0
    }  # fmt: skip
    assert found["replicas"][0]["runs"] == 2


def test_a_job_that_has_told_nothing(http: TestClient, stoker: Stoker) -> None:
    submit(stoker)
    assert http.get(URL).json() == {
        "attempt": None,
        "way": "",
        "replicas_in_step": None,
        "replicas": [],
        "scaling": None,
        "saves": NO_SAVES,
        "findings": [],
    }
    assert http.get(URL.replace("/j/", "/none/")).status_code == 404


def test_what_was_told(http: TestClient, stoker: Stoker) -> None:
    submit(stoker)
    tell(
        stoker,
        1,
        {"way": "averaged gradients", "replicas": 2},
        window(1, 1),
        window(5, 4, waited=1.5, values={"loss": "nan"}),
    )
    found = http.get(URL, params={"points": 2}).json()
    assert (found["attempt"], found["way"], found["replicas_in_step"]) == (1, "averaged gradients", 2)
    (replica,) = found["replicas"]
    assert (replica["step"], replica["steps_per_second"], replica["examples_per_second"]) == (5, 2.0, 32.0)
    assert (replica["data_wait_share"], replica["together_share"], replica["first_step_seconds"]) == (0.75, None, 2.0)
    assert replica["values"] == {"loss": "nan"} and [point["step"] for point in replica["series"]] == [1, 5]
    assert [finding["code"] for finding in found["findings"]] == ["NOT_A_NUMBER", "INPUT_BOUND"]


def test_another_attempt_and_one_that_is_not_there(http: TestClient, stoker: Stoker) -> None:
    submit(stoker)
    tell(stoker, 1, window(1, 1))
    assert http.get(URL, params={"attempt": 1}).json()["attempt"] == 1
    assert http.get(URL, params={"attempt": 2}).json()["replicas"] == []
    assert http.get(URL, params={"attempt": "x"}).status_code == 400


def test_how_well_it_scales_is_known_from_a_probe_of_the_same_program(http: TestClient, stoker: Stoker) -> None:
    probe = {"stoker-probe": "x"}
    submit(stoker, "alone", probe)
    submit(stoker, "other", probe, replace(ALONE, program=replace(ALONE.program, command=("sh",))))
    submit(stoker, "unmarked")
    submit(stoker, "j", spec=a_spec(workers=1))
    for job, examples in (("alone", 100), ("other", 1), ("unmarked", 1), ("j", 160)):
        tell(stoker, 1, window(1, 1), {**window(11, 10), "examples": examples}, job=job)
    scaling = http.get(URL).json()["scaling"]
    assert scaling.pop("efficiency") == scaling.pop("speed_up") / 2 == 0.8
    assert scaling == {"probe": "alone", "devices": 2, "probe_devices": 1}
    assert http.get(URL.replace("/j/", "/alone/")).json()["scaling"] is None
