"""Which hardware a training needs, over HTTP: the site's own first, from what a job has used, and what cannot be asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api.dialects.native.schemas.choose import Choice
from stoker.app import Stoker
from stoker.gpu.device import Device
from stoker.gpu.reading import Reading
from stoker.sampling.sample import Sample
from tests.api.bodies import violations
from tests.api.test_openapi import conforms

CHOOSE = "/stoker/v1/projects/p/choose"
JOBS = "/stoker/v1/projects/p/jobs"


def asked(http: TestClient, **query: Any) -> dict[str, Any]:
    """The answer, held against its declaration."""
    answer = http.get(CHOOSE, params=query)
    assert answer.status_code == 200, answer.text
    conforms(Choice, answer.json())
    found: dict[str, Any] = answer.json()
    return found


def test_the_sites_own_come_first_and_say_what_is_free(http: TestClient) -> None:
    found = asked(http, memory="10GB")
    first = found["choices"][0]
    assert (first["rank"], first["place"], first["name"], first["free"], first["whole"]) == (
        1,
        "site",
        "NVIDIA_TESLA_T4",
        40,
        40,
    )
    assert any("40 of 40" in words for words in first["why"])
    k80 = next(row for row in found["choices"] if row["place"] == "site" and row["name"] == "NVIDIA_TESLA_K80")
    assert k80["rank"] == 2, "12 GB are 11 and a little"
    assert found["needs"]["source"] == "named" and found["needs"]["high_bytes"] == pytest.approx(11e9)


def test_what_the_site_has_and_does_not_suffice_is_out(http: TestClient) -> None:
    found = asked(http, memory="20GB")
    assert found["choices"][0]["place"] == "cloud"
    t4 = next(row for row in found["choices"] if row["place"] == "site" and row["name"] == "NVIDIA_TESLA_T4")
    assert t4["rank"] is None and t4["why"][0].startswith("16 GB < 22 GB needed")


def test_an_estimate_tells_its_terms_and_assumptions(http: TestClient) -> None:
    found = asked(http, parameters="350M", batch=64, precision="bf16")
    needs = found["needs"]
    assert needs["low_bytes"] < needs["expected_bytes"] < needs["high_bytes"] and needs["source"] == "estimate"
    terms = {term["name"]: term["bytes"] for term in needs["terms"]}
    assert (
        terms["weights"] == 1.4e9
        and terms["optimizer"] == 2.8e9
        and any("--sequence" in w for w in needs["assumptions"])
    )
    ranks = [row["rank"] for row in found["choices"] if row["rank"] is not None]
    assert ranks == list(range(1, len(ranks) + 1))


def test_all_that_is_said_of_the_model_counts(http: TestClient) -> None:
    plain = asked(http, parameters="100M", batch=8)["needs"]["expected_bytes"]
    for more in (
        {"sequence": 2048},
        {"vocabulary": 200_000, "sequence": 256},
        {"heads": 512},
        {"activations": "9G"},
        {"batch": 64},
    ):
        assert asked(http, **{"parameters": "100M", "batch": 8, **more})["needs"]["expected_bytes"] > plain, more
    for less in ({"optimizer": "sgd", "kind": "dense"}, {"checkpointing": True}, {"precision": "pure-bf16"}):
        assert asked(http, **{"parameters": "100M", "batch": 8, **less})["needs"]["expected_bytes"] < plain, less


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ({}, "parameters", "memory (20GB), or a job"),
        ({"parameters": "0"}, "parameters", "1 parameter at least"),
        ({"parameters": "1e30"}, "parameters", "largest models known"),
        ({"parameters": "lots"}, "parameters", "350M"),
        ({"memory": "-1"}, "memory", "is no amount"),
        ({"memory": "1GB", "budget": "-3"}, "budget", "is no amount"),
        ({"memory": "1GB", "precision": "b16"}, "precision", "did you mean bf16?"),
        ({"memory": "1GB", "optimizer": "adm"}, "optimizer", "did you mean adam?"),
        ({"memory": "1GB", "task": "war"}, "task", "there are study, research, production"),
        ({"memory": "1GB", "kind": "cnn"}, "kind", "there are transformer"),
        ({"memory": "1GB", "framework": "torhc"}, "framework", "did you mean torch?"),
        ({"memory": "1GB", "region": "mars"}, "region", "stoker regions lists them"),
    ],
)
def test_what_cannot_be_asked(http: TestClient, query: dict[str, str], field: str, said: str) -> None:
    answer = http.get(CHOOSE, params=query)
    assert answer.status_code == 400 and said in violations(answer)[field]


def test_all_mistakes_are_told_at_once(http: TestClient) -> None:
    answer = http.get(CHOOSE, params={"parameters": "x", "budget": "y", "task": "z"})
    assert {"parameters", "budget", "task"} <= set(violations(answer))


@pytest.mark.parametrize("query", ["batch=-1", "batch=1e9", "sequence=many", "layers=99999999999"])
def test_what_is_no_number_of_the_right_kind(http: TestClient, query: str) -> None:
    assert http.get(f"{CHOOSE}?parameters=1M&{query}").status_code == 400


def test_a_job_that_is_not_there(http: TestClient) -> None:
    assert http.get(f"{CHOOSE}?job=nope").status_code == 404


def test_a_job_that_has_held_nothing_is_not_guessed_at(http: TestClient) -> None:
    http.post(f"{JOBS}:run", json={"name": "j", "command": ["true"]}).raise_for_status()
    found = asked(http, job="j")
    assert found["needs"] is None and found["choices"] == [] and "give --parameters" in found["advice"][0]
    assert "was not measured" in found["used"]["words"][0]
    assert asked(http, job="j", memory="10GB")["choices"], "what is known is given"


def a_sample(uuid: str, at: float, used: float) -> Sample:
    device = Device(index=0, uuid=uuid, product="Tesla T4", memory_bytes=16 << 30)
    values = {"memory_used_bytes": used, "memory_total_bytes": 16e9, "utilization_percent": 90.0}
    return Sample(
        at=at, host={"host_memory_used_bytes": 1e9}, gpus=[Reading(device=device, values=values)], processes=[]
    )


@pytest.mark.parametrize("stoker", [{"hold": False}], indirect=True)
def test_from_what_a_job_has_used(http: TestClient, stoker: Stoker) -> None:
    stoker.loop.enact = lambda *_: []  # type: ignore[assignment]  # nobody tells the engine
    http.post(f"{JOBS}:run", json={"name": "j", "command": ["true"], "gpus": 1, "gpu_type": "T4"}).raise_for_status()
    stoker.loop.tick()
    (attempt,) = stoker.store.attempts("p/j")
    (place,) = attempt.placements
    nodes = [node for node in stoker.store.world().nodes.values() if node.name == place.node]
    now = stoker.services.commands.clock.now()
    for n in range(5):
        stoker.services.monitor.hear(nodes, a_sample(place.devices[0], attempt.placed_at + n / 100, 1e9 * (n + 1)))
    step = {"t": now, "step": 11, "steps": 10, "seconds": 2.0, "longest": 0.2, "examples": 640, "waited": 0.0}
    stoker.services.logs.append(attempt.id, "chief-0", [{"n": 1, "t": now, "s": "steps", "m": json.dumps(step)}])
    found = asked(http, job="j", precision="fp16")
    used = found["used"]
    assert (used["gpus"], used["peak_bytes"], used["busy_percent"]) == (1, pytest.approx(5e9, rel=0.01), 90.0)
    assert (used["batch"], used["examples_per_second"]) == (64, 320.0)
    assert found["needs"]["source"] == "measured" and found["needs"]["expected_bytes"] == pytest.approx(5e9, rel=0.01)
    assert found["choices"][0]["place"] == "site" and found["choices"][0]["needed_bytes"] == pytest.approx(
        5.5e9, rel=0.01
    )
    told = asked(http, job="j", parameters="10M", sequence=128)
    assert told["needs"]["source"] == "estimate" and "64 examples" in str(told["needs"]["terms"])
