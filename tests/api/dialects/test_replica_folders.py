"""The folders of a job, for replicas on machines that do not have them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker
from stoker.control.submission import Submission
from stoker.core.changes import MoveAttempt, Open
from stoker.core.job import Attempt, Placement, Replica, Request
from stoker.core.states import AttemptState, Cause
from tests.builders import a_spec

FOLDER = "/stoker/replica/v1/p/j.1/chief-0/folders/0"


@pytest.fixture
def replica(stoker: Stoker) -> Iterator[TestClient]:
    """The application, and an attempt of a chief, whose job has a directory, that shows its token."""
    spec = replace(a_spec(), job_dir="gs://some-bucket/job")
    stoker.services.commands.submit(
        Submission("p", "j", spec, request=Request(dialect="x", body="{}"), labels={}, owner="u")
    )
    place = Placement(role="chief", index=0, node="local")
    attempt = Attempt(
        id="p/j.1",
        job="p/j",
        number=1,
        engine="local",
        placements=(place,),
        placed_at=0.0,
        replicas=(Replica(role="chief", index=0),),
    )
    stoker.store.commit([Open(attempt=attempt)], by="loop")
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {stoker.tokens.of_attempt('p/j.1')}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def bucket(stoker: Stoker) -> Path:
    """The bucket's folder."""
    return stoker.config.home / "buckets" / "gs" / "some-bucket"


def test_a_file_comes_back_as_it_went_with_its_time(replica: TestClient, bucket: Path) -> None:
    answer = replica.put(f"{FOLDER}/a/b%20c.bin?mtime_ns=1700000000000000001", content=b"\x00\xff")
    assert answer.json() == {"stamp": [2, 1700000000000000001]}
    assert (bucket / "job" / "a" / "b c.bin").read_bytes() == b"\x00\xff"
    assert replica.get(FOLDER).json() == {"files": {"a/b c.bin": [2, 1700000000000000001]}}
    assert replica.get(f"{FOLDER}/a/b%20c.bin").content == b"\x00\xff"


def test_an_empty_folder_and_one_that_is_not_there_have_no_files(replica: TestClient) -> None:
    assert replica.get(FOLDER).json() == {"files": {}}
    assert replica.get(f"{FOLDER}?below=nowhere").json() == {"files": {}}


def test_what_is_below_a_path_is_named_from_the_folder_on(replica: TestClient) -> None:
    for path in ("a/1", "a/2", "ab/3"):
        replica.put(f"{FOLDER}/{path}", content=b"x")
    assert list(replica.get(f"{FOLDER}?below=a").json()["files"]) == ["a/1", "a/2"]
    assert list(replica.get(f"{FOLDER}?below=a/1").json()["files"]) == ["a/1"]


def test_a_file_and_a_folder_can_be_removed_and_again(replica: TestClient, bucket: Path) -> None:
    for path in ("a/1", "a/b/2", "c"):
        replica.put(f"{FOLDER}/{path}", content=b"x")
    for _ in range(2):
        assert replica.delete(f"{FOLDER}/a").status_code == replica.delete(f"{FOLDER}/c").status_code == 200
    assert not list((bucket / "job").iterdir())


def test_a_missing_file_is_no_end_of_the_attempt(replica: TestClient) -> None:
    """A supervisor that hears NOT_FOUND believes that its attempt is over."""
    for path in ("/none", "/none/below"):
        assert replica.get(FOLDER + path).json()["error"]["status"] == "INVALID_ARGUMENT"
    assert replica.get(FOLDER.replace("folders/0", "folders/7")).json()["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("path", ["..%2f..%2ftoken", "a/%2e%2e/%2e%2e/x", "%252e%252e/x", "a%00b", "x/"])
def test_no_name_leads_out(replica: TestClient, bucket: Path, path: str) -> None:
    (bucket / "other").mkdir(parents=True)
    for answer in (replica.put(f"{FOLDER}/{path}", content=b"x"), replica.get(f"{FOLDER}/{path}")):
        assert answer.status_code in (400, 404)
    assert not (bucket / "x").exists() and not (bucket.parent / "x").exists()


def test_no_link_leads_out(replica: TestClient, bucket: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (bucket / "job").mkdir(parents=True)
    os.symlink(tmp_path, bucket / "job" / "out")
    assert replica.get(FOLDER).json() == {"files": {}}
    assert replica.get(f"{FOLDER}/out/secret").status_code == 400
    assert replica.put(f"{FOLDER}/out/secret", content=b"x").status_code == 400
    assert replica.delete(f"{FOLDER}/out").status_code == 200
    assert (tmp_path / "secret").read_text() == "s" and not os.path.lexists(bucket / "job" / "out")


def test_no_link_leads_into_another_jobs_folder_either(replica: TestClient, bucket: Path) -> None:
    """The same bucket, and a link that stays in it."""
    (bucket / "other").mkdir(parents=True)
    (bucket / "other" / "model").write_text("theirs")
    (bucket / "job").mkdir()
    os.symlink("../other", bucket / "job" / "link")
    assert replica.get(f"{FOLDER}/link/model").status_code == 400
    assert replica.put(f"{FOLDER}/link/model", content=b"x").status_code == 400
    assert replica.delete(f"{FOLDER}/link/model").status_code == 400
    assert replica.get(f"{FOLDER}?below=link").status_code == 400
    assert (bucket / "other" / "model").read_text() == "theirs"


def test_a_folder_that_has_become_a_link_is_not_entered(replica: TestClient, bucket: Path) -> None:
    (bucket / "other").mkdir(parents=True)
    os.symlink("other", bucket / "job")
    for answer in (replica.get(FOLDER), replica.put(f"{FOLDER}/a", content=b"x"), replica.delete(f"{FOLDER}/a")):
        assert answer.status_code == 400 and "leads through a link" in answer.json()["error"]["message"]
    assert not list((bucket / "other").iterdir())


def test_who_has_ended_writes_no_more(replica: TestClient, stoker: Stoker, bucket: Path) -> None:
    for before, after in pairwise((AttemptState.PLACED, AttemptState.STOPPING, AttemptState.ENDED)):
        move = MoveAttempt(attempt="p/j.1", before=before, after=after, at=1.0, cause=Cause.PREEMPTED)
        stoker.store.commit([move], by="loop")
    for answer in (
        replica.put(f"{FOLDER}/a", content=b"x"),
        replica.get(FOLDER),
        replica.get(f"{FOLDER}/a"),
        replica.delete(f"{FOLDER}/a"),
    ):
        assert answer.status_code == 409 and answer.json()["error"]["status"] == "ABORTED"
    assert not (bucket / "job").exists()


def test_another_attempts_token_opens_nothing(replica: TestClient, stoker: Stoker) -> None:
    headers = {"Authorization": f"Bearer {stoker.tokens.of_attempt('p/k.1')}"}
    assert replica.get(FOLDER, headers=headers).status_code == 401
