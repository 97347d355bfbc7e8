"""What a site does at this moment, in one answer, and who may see what of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from docs.scripted_site import NOW, ScriptedSite
from stoker.api.dialects.native.overview import MOST_NODES
from stoker.api.dialects.native.schemas.overview import Overview
from tests.api.bodies import violations
from tests.homes import a_home

H100, T4 = "local-nvidia_h100_80gb", "local-nvidia_tesla_t4"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ScriptedSite]:
    """Six GPUs, a job of two that runs, one that has its places, and one that waits."""
    made = ScriptedSite(
        a_home(tmp_path / "home"), jobs=[("train", "H100", 2), ("placed", "T4", 1), ("waits", "H100", 4)]
    )
    made.run("train", steps_per_second=4.0, data_wait=0.25)
    made.sample(60)
    yield made
    made.close()


def test_all_at_once(site: ScriptedSite) -> None:
    found: dict[str, Any] = site.client.overview(60)
    TypeAdapter(Overview).validate_python(found, strict=True, extra="forbid")
    assert found["at"] == pytest.approx(NOW, abs=10)
    assert found["counts"] == {
        "nodes": len(found["nodes"]),
        "gpus": 6,
        "gpus_held": 3,
        "gpus_busy": 4,
        "jobs_running": 2,
        "jobs_waiting": 1,
    }
    assert [node["name"] for node in found["nodes"][:2]] == [H100, T4]
    host = found["nodes"][0]["values"]
    assert (
        host["network_received_bytes_per_second"] == pytest.approx(94e6, rel=0.01) and "network_sent_bytes" not in host
    )
    assert [(gpu["node"], gpu["index"]) for gpu in found["gpus"]] == [*((H100, n) for n in range(4)), (T4, 4), (T4, 5)]
    assert found["gpus"][1]["holders"] == [{"project": "local", "job": "train", "replica": "chief-0"}]
    assert found["gpus"][3]["holders"] == [] and found["gpus"][0]["values"]["power_limit_watts"] == 700.0


def test_the_last_minutes_are_told_if_they_are_asked_for(site: ScriptedSite) -> None:
    gpu = site.client.overview(60)["gpus"][0]
    assert len(gpu["recent"]) == 60 and gpu["recent"][0] is None
    known = [value for value in gpu["recent"] if value is not None]
    assert 11 <= len(known) <= 13 and all(92 <= value <= 99 for value in known)
    without = site.client.overview()
    assert not [row for row in (*without["nodes"], *without["gpus"]) if row["recent"]]


def test_how_jobs_train(site: ScriptedSite) -> None:
    placed, train = sorted(site.client.overview()["jobs"], key=lambda job: str(job["name"]))
    assert (train["step"], train["steps_per_second"], train["data_wait_share"]) == (2200, 4.0, 0.25)
    assert (train["state"], train["owner"], train["accelerators"], train["nodes"]) == ("RUNNING", "ada", 2, [H100])
    assert (placed["state"], placed["step"], placed["steps_per_second"]) == ("PREPARING", None, None)


def test_others_see_gpus_and_their_own_jobs(site: ScriptedSite) -> None:
    eve, bob = site.client_of("eve").overview(60), site.client_of("bob", projects=["b"]).overview(60)
    for found in (eve, bob):
        assert len(found["gpus"]) == 6 and found["gpus"][0]["recent"]
        assert not [node for node in found["nodes"] if node["values"] or node["recent"]]
    assert len(eve["jobs"]) == 2 and eve["gpus"][0]["holders"]
    assert bob["jobs"] == [] and not [gpu for gpu in bob["gpus"] if gpu["holders"]]
    assert (bob["counts"]["jobs_running"], bob["counts"]["jobs_waiting"], bob["counts"]["gpus_held"]) == (0, 0, 3)


def test_it_is_bounded(tmp_path: Path) -> None:
    site = ScriptedSite(a_home(tmp_path / "home"), fake="700x2xT4")
    try:
        site.sample(0)
        found = site.client.overview(60)
    finally:
        site.close()
    assert len(found["nodes"]) == MOST_NODES and [node["name"] for node in found["nodes"][:2]] == [H100, T4]
    assert found["counts"]["nodes"] == 702 and found["counts"]["gpus"] == 1406 and len(found["gpus"]) == 6


@pytest.mark.parametrize("points", ["-1", "61", "x"])
def test_what_cannot_be_asked(http: TestClient, points: str) -> None:
    answer = http.get(f"/stoker/v1/overview?points={points}")
    assert answer.status_code == 400 and "points" in violations(answer)


def test_of_a_site_that_samples_nothing_nodes_are_told(http: TestClient) -> None:
    found = http.get("/stoker/v1/overview?points=60").json()
    assert found["gpus"] == found["jobs"] == [] and found["counts"]["gpus"] == 80 and len(found["nodes"]) == 24
