"""The story of a job, in pages."""

from __future__ import annotations

from starlette.testclient import TestClient

from tests.api.bodies import a_run

PROJECT = "/stoker/v1/projects/p"


def test_the_story_tells_who_did_what(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    http.post("/v1/projects/p/jobs/r:cancel", json={})
    story = http.get(f"{PROJECT}/jobs/r/story").json()["story"]
    assert [line["what"] for line in story] == ["Submit", "Cancel"]
    assert len({line["by"] for line in story}) == 1


def test_the_story_in_pages(http: TestClient) -> None:
    http.post(f"{PROJECT}/jobs:run", json=a_run())
    for n in range(4):
        http.patch("/v1/projects/p/jobs/r?updateMask=labels", json={"labels": {"n": str(n)}})
    whole = http.get(f"{PROJECT}/jobs/r/story").json()
    first = http.get(f"{PROJECT}/jobs/r/story?limit=3").json()
    rest = http.get(f"{PROJECT}/jobs/r/story?limit=3&after={first['next']}").json()
    assert first["story"] + rest["story"] == whole["story"] and len(whole["story"]) == 5
    assert (first["next"], rest["next"], whole["next"]) == (first["story"][-1]["n"], None, None)
