"""Who may do what: role × route × owner over the whole route table (Kubeflow CVE-2026-77596, MLflow CVE-2024-4263).

The table of expectations stands here a second time, in words of its own: a route that it does not know fails the test.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from stoker.core.changes import Open
from tests.api.bodies import PACKAGE, a_job_body
from tests.contract.store_contract import an_attempt
from tests.security.table import BASE, Door, bearer, doors, patient

PROJECT = r"/(stoker/v1|v1)/projects/\{project\}/.*|/v1/projects/\{project_verb\}"
FILES = r"/stoker/v1/files/.*|(/resumable)?(/upload|/download)?/storage/v1/b.*|/batch/storage/v1"
SORTED = (
    r"/stoker/v1/(status|openapi\.json|nodes|gpus|overview|pools|costs|goodput|queue|jobs|alerts.*)|/v2/entries:list"
)
ADMIN = r"/stoker/v1/(settings|shutdown|history|tokens.*|nodes/.+)|/metrics"
REPLICA = r"/stoker/replica/v1/.*"

ADA, BOB = "ada", "bob"


@dataclass
class Site:
    """A server with an admin, a user of all projects, and two of one each."""

    stoker: Stoker
    clients: dict[str, TestClient] = field(default_factory=dict)

    def __getitem__(self, user: str) -> TestClient:
        return self.clients[user]


@pytest.fixture
def site(stoker: Stoker) -> Iterator[Site]:
    """Ada has project a and bucket ada-data, Bob has b and bob-data; each has a job and a file. Eve has all projects."""
    found, book = Site(stoker), stoker.services.tokens
    shown = {
        "admin": stoker.tokens.token,
        ADA: book.create(ADA, projects=("a",), buckets=("ada-data",))[0],
        BOB: book.create(BOB, projects=("b",), buckets=("bob-data",))[0],
        "eve": book.create("eve")[0],
        "root2": book.create("root2", is_admin=True)[0],
    }
    app = patient(stoker)
    for user, token in shown.items():
        found.clients[user] = TestClient(app, BASE, headers=bearer(token), raise_server_exceptions=False)
    with stoker.services.files.write(PACKAGE) as file:
        file.write(b"a package")
    for user, project in ((ADA, "a"), (BOB, "b")):
        body = {"name": "job", "command": ["true"], "job_dir": f"gs://{user}-data/out"}
        assert found[user].post(f"/stoker/v1/projects/{project}/jobs:run", json=body).status_code == 200
        assert found[user].put(f"/stoker/v1/files/gs/{user}-data/out/secret.txt", content=b"mine").status_code == 200
    yield found
    for client in found.clients.values():
        client.close()


def kinds_of(door: Door) -> list[str]:
    """What the expectations say of a path."""
    kinds = {"project": PROJECT, "files": FILES, "sorted": SORTED, "admin": ADMIN, "replica": REPLICA}
    return [kind for kind, pattern in kinds.items() if re.fullmatch(pattern, door.path)]


def test_every_route_has_its_place_in_the_table(stoker: Stoker) -> None:
    assert not [door.path for door in doors(stoker) if len(kinds_of(door)) != 1]


def test_what_is_for_admins_is_for_nobody_else(site: Site) -> None:
    """Every method of every such route, and of paths that nobody has thought of yet."""
    paths = [door for door in doors(site.stoker) if kinds_of(door) == ["admin"]]
    assert len(paths) > 4
    unknown = [
        Door(path, frozenset({"GET", "POST"})) for path in ("/", "/stoker/v1/nodes/n:drain", "/stoker/v1/backup", "/x")
    ]
    for user in (ADA, "eve"):
        for door in paths + unknown:
            for method in (*door.methods, "DELETE", "PATCH", "PUT"):
                answer = site[user].request(method, door.at(), json={"name": "x"})
                assert answer.status_code == 403, (user, method, door.path)
    assert [token.name for token in site.stoker.services.tokens.tokens()] == [ADA, BOB, "eve", "root2"]


def test_an_admin_may_everything(site: Site) -> None:
    for user in ("admin", "root2"):
        for path in ("settings", "history", "tokens", "projects/a/jobs/job", "projects/b/jobs/job"):
            assert site[user].get(f"/stoker/v1/{path}").status_code == 200, (user, path)


def test_a_user_of_all_projects_sees_them(site: Site) -> None:
    for project, user in (("a", ADA), ("b", BOB)):
        found = site["eve"].get(f"/stoker/v1/projects/{project}/jobs/job").json()
        assert found["owner"] == user
    assert len(site["eve"].get("/stoker/v1/jobs").json()["jobs"]) == 2
    assert site["eve"].get("/stoker/v1/files/gs/ada-data/out/secret.txt").content == b"mine"


def test_with_anothers_ids_there_is_nothing(site: Site) -> None:
    """Bob, on every route of a project, with Ada's ids: 404, and the same 404 as for a project that nobody has."""
    before = site.stoker.store.position()
    for door in doors(site.stoker):
        if kinds_of(door) != ["project"]:
            continue
        for method in door.methods | {"GET", "POST", "PATCH", "DELETE", "PUT"}:
            verb = {"project_verb": "a:getConfig"}
            hers = site[BOB].request(method, door.at(project="a", name="job", job="job", **verb), json=a_job_body("x"))
            verb = {"project_verb": "z:getConfig"}
            nobodys = site[BOB].request(
                method, door.at(project="z", name="job", job="job", **verb), json=a_job_body("x")
            )
            assert hers.status_code == nobodys.status_code == 404, (method, door.path)
            assert hers.text == nobodys.text.replace("'z'", "'a'").replace("'z:", "'a:"), (method, door.path)
    assert site.stoker.store.position() == before
    assert site[ADA].get("/stoker/v1/projects/a/jobs/job").json()["state"] == "QUEUED"


@pytest.mark.parametrize(
    "project", ["a%2Fjobs", "b/../a", "b%2f..%2fa", "A", "a.", "%61", "a;x", "a:a", ".", "b//../a", "a%00"]
)
def test_odd_spellings_of_a_project_open_no_other(site: Site, project: str) -> None:
    """Only `%61` is another spelling of what Ada has; for Bob none of them leads there."""
    for path in (f"/stoker/v1/projects/{project}/jobs/job", f"/v1/projects/{project}/jobs/job"):
        assert site[BOB].get(path).status_code in (400, 403, 404), path


def test_lists_are_sorted_by_what_one_may_see(site: Site) -> None:
    assert site[BOB].get("/stoker/v1/jobs").json()["jobs"] == [{"project": "b", "name": "job"}]
    for query in ("", "?project=a", "?project=b"):
        waiting = site[BOB].get(f"/stoker/v1/queue{query}").json()["waiting"]
        assert {job["project"] for job in waiting} <= {"b"}
    for project in ("a", "b"):  # each has held a machine for an hour
        attempt = replace(an_attempt(f"{project}/job"), placed_at=time.time() - 3600)
        site.stoker.store.commit([Open(attempt=attempt)], by="loop")
    assert {bill["project"] for bill in site["eve"].get("/stoker/v1/costs").json()["bills"]} == {"a", "b"}
    for query in ("", "?project=a", "?project=b"):
        assert {bill["project"] for bill in site[BOB].get(f"/stoker/v1/costs{query}").json()["bills"]} <= {"b"}
    assert [b["name"] for b in site[BOB].get("/storage/v1/b?project=b").json()["items"]] == ["bob-data"]
    hers = {"resourceNames": ["projects/b", "projects/a"], "filter": 'resource.labels.job_id="job"'}
    assert site[BOB].post("/v2/entries:list", json=hers).status_code == 404
    assert site[BOB].post("/v2/entries:list", json={**hers, "resourceNames": ["projects/b"]}).status_code == 200


OF_ADA = {"bucket": "ada-data", "name": "out/secret.txt", "rest": "out/secret.txt"}


def test_anothers_files_are_not_there(site: Site) -> None:
    """Every route of files and buckets, every method; whether hers are there or not is no difference."""
    for door in doors(site.stoker):
        if kinds_of(door) != ["files"] or "bucket" not in door.parameters:
            continue
        for method in door.methods | {"GET", "PUT", "POST", "DELETE", "PATCH"}:
            for suffix in ("", "?uploadType=media&name=x", "?uploadType=resumable&name=x"):
                hers = site[BOB].request(method, door.at(**OF_ADA) + suffix, content=b"{}")
                nobodys = site[BOB].request(method, door.at(**{**OF_ADA, "bucket": "zoe-data"}) + suffix, content=b"{}")
                assert hers.status_code == nobodys.status_code >= 400, (method, door.path, suffix, hers.text)
    assert site[ADA].get("/stoker/v1/files/gs/ada-data/out/secret.txt").content == b"mine"


def test_anothers_files_are_not_reached_through_ones_own(site: Site) -> None:
    """By copying, composing, moving, in a batch, as a job's directory, its source or its package."""
    hers = "/storage/v1/b/ada-data/o/out%2Fsecret.txt"
    for path in (
        f"{hers}/copyTo/b/bob-data/o/stolen",
        f"{hers}/rewriteTo/b/bob-data/o/stolen",
        "/storage/v1/b/bob-data/o/out%2Fsecret.txt/rewriteTo/b/ada-data/o/planted",
    ):
        assert site[BOB].post(path, json={}).status_code == 404, path
    sources = {"sourceObjects": [{"name": "../ada-data/out/secret.txt"}]}
    assert site[BOB].post("/storage/v1/b/bob-data/o/stolen/compose", json=sources).status_code in (400, 404)
    part = f"--x\r\nContent-Type: application/http\r\nContent-ID: <1>\r\n\r\nGET {hers} HTTP/1.1\r\n\r\n\r\n--x--\r\n"
    batch = site[BOB].post("/batch/storage/v1", content=part, headers={"Content-Type": "multipart/mixed; boundary=x"})
    assert "404" in batch.text and "secret.txt" not in batch.text.replace(hers, "")
    run = {"name": "thief", "command": ["true"]}
    for field_of_it in (
        {"job_dir": "gs://ada-data/out"},
        {"source": "gs://ada-data/out/secret.txt"},
        {"job_dir": "/etc"},
    ):
        answer = site[BOB].post("/stoker/v1/projects/b/jobs:run", json={**run, **field_of_it})
        assert answer.status_code == 400, field_of_it
    stolen = a_job_body("thief", jobDir="gs://ada-data/out", packageUris=["gs://ada-data/out/secret.txt"])
    assert site[BOB].post("/v1/projects/b/jobs", json=stolen).status_code == 400
    assert site[BOB].get("/stoker/v1/projects/b/jobs/thief").status_code == 404


def test_what_was_sent_with_a_job_is_opened_by_its_digest_alone(site: Site) -> None:
    """Everybody's sources lie in one bucket: who knows the content may name it, and nobody may list it."""
    digest = "0" * 64
    path = f"/stoker/v1/files/gs/stoker-source/{digest}/source.zip"
    assert site[BOB].put(path, content=b"source").status_code == 200
    assert site[BOB].head(path).status_code == 200
    for closed in (
        "/storage/v1/b/stoker-source",
        "/storage/v1/b/stoker-source/o",
        "/stoker/v1/files/gs/stoker-source/x.zip",
    ):
        assert site[BOB].get(closed).status_code == 404, closed


def test_an_upload_of_ones_own_is_not_continued_in_anothers_bucket(site: Site) -> None:
    begun = site[ADA].post("/upload/storage/v1/b/ada-data/o?uploadType=resumable&name=x", json={})
    id = begun.headers["X-GUploader-UploadID"]
    done = site[BOB].put(f"/upload/storage/v1/b/bob-data/o?upload_id={id}", content=b"planted")
    assert done.status_code == 404
    assert site[ADA].get("/storage/v1/b/ada-data/o/x").status_code == 404


def test_a_job_belongs_to_the_user_of_its_token(site: Site) -> None:
    story = site[ADA].get("/stoker/v1/projects/a/jobs/job/story").json()["story"]
    assert story[0]["by"] == ADA


def test_a_revoked_token_opens_nothing_at_once(site: Site) -> None:
    assert site[BOB].get("/stoker/v1/jobs").status_code == 200
    assert site["admin"].delete("/stoker/v1/tokens/bob").status_code == 200
    assert site[BOB].get("/stoker/v1/jobs").status_code == 401
