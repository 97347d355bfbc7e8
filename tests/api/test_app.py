"""The application as a whole: its secrets kept."""

from __future__ import annotations

from starlette.testclient import TestClient

from stoker.app import Stoker


def test_no_answer_holds_the_token(http: TestClient, stoker: Stoker) -> None:
    answers = [
        http.get("/stoker/v1/status"),
        http.get("/stoker/v1/nodes"),
        http.get("/stoker/v1/settings"),
        http.get("/stoker/v1/openapi.json"),
        http.get(f"/{stoker.tokens.token[:20]}"),
        http.post("/v1/projects/p/jobs", content=b"{"),
        http.get("/v1/projects/p/jobs", headers={"Authorization": f"Bearer {stoker.tokens.token}x"}),
        http.get("/stoker/v1/status", headers={"Host": "evil.example"}),
    ]
    for answer in answers:
        assert stoker.tokens.token not in answer.text + str(answer.headers)


def test_a_path_with_a_slash_too_many_is_not_redirected(http: TestClient) -> None:
    assert http.get("/stoker/v1/status/", follow_redirects=False).status_code == 404
