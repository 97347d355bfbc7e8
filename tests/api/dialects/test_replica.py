"""What replicas say: their lines, their addresses, their end; and what they may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.api.dialects.replica.routes import router
from stoker.app import Stoker, build
from stoker.clock import ManualClock
from stoker.config import read_config
from stoker.control.submission import Submission
from stoker.core.changes import MoveAttempt, MoveJob, Open
from stoker.core.job import Attempt, Placement, Replica, Request
from stoker.core.spec import Program
from stoker.core.states import AttemptState, Cause, JobState, ReplicaState
from stoker.gpu.drivers.fake import FakeDriver
from tests.api.bodies import violations
from tests.builders import a_spec
from tests.conftest import wait_until

CHIEF = "/stoker/replica/v1/p/j.1/chief-0"
WORKER = "/stoker/replica/v1/p/j.1/worker-0"


@pytest.fixture
def replicas(stoker: Stoker) -> Iterator[TestClient]:
    """The application, and an attempt of a chief and a worker that shows its token."""
    with stoker.services.files.write("gs://some-bucket/source.zip") as file:
        file.write(b"the source")
    spec = replace(a_spec(workers=1), program=Program(source="gs://some-bucket/source.zip", command=("true",)))
    stoker.services.commands.submit(
        Submission("p", "j", spec, request=Request(dialect="x", body="{}"), labels={}, owner="u")
    )
    places = (Placement(role="chief", index=0, node="local"), Placement(role="worker", index=0, node="local"))
    attempt = Attempt(
        id="p/j.1",
        job="p/j",
        number=1,
        engine="local",
        placements=places,
        placed_at=0.0,
        replicas=tuple(Replica(role=p.role, index=p.index) for p in places),
    )
    stoker.store.commit([Open(attempt=attempt)], by="loop")
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {stoker.tokens.of_attempt('p/j.1')}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers, raise_server_exceptions=False) as client:
        yield client


def a_line(n: int, text: str = "x", **changes: Any) -> dict[str, Any]:
    """A line of output in order."""
    return {"n": n, "t": 1.5, "s": "out", "m": text, **changes}


def test_lines_are_kept_once_however_often_they_are_shipped(replicas: TestClient, stoker: Stoker) -> None:
    for _ in range(2):
        assert replicas.post(f"{CHIEF}/lines", json={"lines": [a_line(1, "a"), a_line(2, "b")]}).json() == {}
    replicas.post(f"{WORKER}/lines", json={"lines": [a_line(1, "c")]})
    kept = [(line.replica, line.text) for line in stoker.services.logs.read("p/j")]
    assert kept == [("chief-0", "a"), ("chief-0", "b"), ("worker-0", "c")]


WRONG_LINES: list[Any] = [
    [],
    "x",
    {"lines": "x"},
    {"lines": [1]},
    {"lines": [a_line(0)]},
    {"lines": [a_line(2**80)]},
    {"lines": [a_line(1, t="x")]},
    {"lines": [a_line(1, s="sideways")]},
    {"lines": [a_line(1, m=None)]},
    {"lines": [{"n": 1}]},
    {"lines": [a_line(1), a_line(2, m=7)]},
]


def test_what_are_no_lines_is_refused_whole(replicas: TestClient, stoker: Stoker) -> None:
    for body in WRONG_LINES:
        assert list(violations(replicas.post(f"{CHIEF}/lines", json=body))) == ["lines"], body
    assert list(violations(replicas.post(f"{CHIEF}/lines", content=json.dumps({"lines": [a_line(1, t=1e400)]})))) == [
        "body"
    ]
    assert not list(stoker.services.logs.read("p/j"))


def test_a_report_comes_after_its_lines(replicas: TestClient, stoker: Stoker) -> None:
    body = {"seen": "FAILED", "exit_code": 3, "message": "it broke", "lines": [a_line(1, "last words")]}
    assert replicas.post(f"{CHIEF}/report", json=body).json() == {}
    chief = stoker.store.attempt("p/j.1").replicas[0]
    assert (chief.seen, chief.exit_code, chief.message) == (ReplicaState.FAILED, 3, "it broke")
    assert [line.text for line in stoker.services.logs.read("p/j")] == ["last words"]


WRONG_REPORTS: list[Any] = [
    {},
    [],
    "x",
    None,
    {"seen": "DANCING"},
    {"seen": ["UP"]},
    {"seen": "UP", "exit_code": "three"},
    {"seen": "UP", "exit_code": []},
    {"seen": "UP", "addresses": 7},
]


def test_what_is_no_report_is_refused(replicas: TestClient, stoker: Stoker) -> None:
    for body in WRONG_REPORTS:
        answer = replicas.post(f"{CHIEF}/report", content=json.dumps(body))
        assert answer.status_code == 400 and violations(answer), body
    assert stoker.store.attempt("p/j.1").replicas[0].seen is ReplicaState.NOTHING


def test_a_message_with_half_a_character_does_no_harm(replicas: TestClient, stoker: Stoker) -> None:
    body = '{"seen": "FAILED", "exit_code": 1, "message": "a\\ud800b", "addresses": ["\\udfff"]}'
    assert replicas.post(f"{CHIEF}/report", content=body).status_code == 200
    assert stoker.store.attempt("p/j.1").replicas[0].message == "a?b"


def test_a_message_is_cut_to_size(replicas: TestClient, stoker: Stoker) -> None:
    replicas.post(f"{CHIEF}/report", json={"seen": "FAILED", "exit_code": 1, "message": "x" * 100_000})
    assert len(stoker.store.attempt("p/j.1").replicas[0].message) == 4000


def test_everybody_learns_where_everybody_is_once_all_have_said_it(replicas: TestClient, stoker: Stoker) -> None:
    with ThreadPoolExecutor() as threads:
        chief = threads.submit(replicas.post, f"{CHIEF}/join", json={"addresses": ["h:1", "h:2", "h:3"]})
        wait_until(lambda: stoker.store.attempt("p/j.1").replicas[0].addresses)
        assert not chief.done()
        worker = threads.submit(replicas.post, f"{WORKER}/join", json={"addresses": ["h:4"]})
        cluster = {"chief": [["h:1", "h:2", "h:3"]], "worker": [["h:4"]]}
        assert chief.result().json() == worker.result().json() == {"cluster": cluster}


def test_joining_needs_addresses(replicas: TestClient) -> None:
    for body in ("[]", "null", "{}", '{"addresses": 7}', '"x"'):
        assert list(violations(replicas.post(f"{CHIEF}/join", content=body))) == ["report"], body


def test_a_replica_gets_the_files_of_its_launch_by_their_numbers(replicas: TestClient) -> None:
    assert replicas.get(f"{CHIEF}/files/0").content == b"the source"
    assert replicas.get(f"{CHIEF}/files/1").status_code == 404
    assert replicas.get(f"{CHIEF}/files/-1").status_code == 404
    assert list(violations(replicas.get(f"{CHIEF}/files/source.zip"))) == ["file"]


def test_a_file_that_is_gone_is_not_found(replicas: TestClient, stoker: Stoker) -> None:
    (stoker.config.home / "buckets/gs/some-bucket/source.zip").unlink()
    assert replicas.get(f"{CHIEF}/files/0").status_code == 404


def test_a_replica_that_is_none(replicas: TestClient) -> None:
    for name in ("chief-1", "ps-0", "chief", "..", "chief-00"):
        answer = replicas.post(f"/stoker/replica/v1/p/j.1/{name}/lines", json={"lines": [a_line(1)]})
        assert answer.status_code in (401, 404), name


def move(stoker: Stoker, *states: AttemptState) -> None:
    """Let the attempt go through these states."""
    for before, after in pairwise((AttemptState.PLACED, *states)):
        move = MoveAttempt(attempt="p/j.1", before=before, after=after, at=1.0, cause=Cause.PREEMPTED)
        stoker.store.commit([move], by="loop")


WRITES: list[tuple[str, Any]] = [
    ("beat", {}),
    ("lines", {"lines": [a_line(1)]}),
    ("report", {"seen": "FAILED", "exit_code": 1, "lines": [a_line(1)]}),
    ("join", {"addresses": ["h:1"]}),
]


@pytest.mark.parametrize("is_alone", [True, False], ids=["it was the last", "another one runs"])
def test_an_attempt_that_has_ended_may_say_nothing_more(replicas: TestClient, stoker: Stoker, is_alone: bool) -> None:
    """Nor does a zombie say anything in the name of the attempt that took its place."""
    old = stoker.store.attempt("p/j.1")
    move(stoker, AttemptState.STOPPING, AttemptState.ENDED)
    if not is_alone:
        back = MoveJob(job="p/j", before=JobState.ACTIVE, after=JobState.QUEUED, at=2.0)
        stoker.store.commit([back, Open(attempt=replace(old, id="p/j.2", number=2))], by="loop")
    before = [stoker.store.attempts("p/j"), stoker.store.position()]
    for path, body in WRITES:
        answer = replicas.post(f"{CHIEF}/{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["status"]) == (409, "ABORTED"), path
        foreign = replicas.post(f"{CHIEF.replace('j.1', 'j.2')}/{path}", json=body)
        assert foreign.status_code in (401, 403, 404), f"{path}: its token opens its own attempt only"
    assert replicas.get(f"{CHIEF}/files/0").status_code == 409
    assert [stoker.store.attempts("p/j"), stoker.store.position()] == before
    assert not list(stoker.services.logs.read("p/j"))


def test_every_route_of_replicas_is_among_those(replicas: TestClient) -> None:
    routes = {
        route.path.rpartition("/")[2] for route in router.routes if "POST" in (getattr(route, "methods", ()) or ())
    }
    assert routes == {path for path, _ in WRITES}


def test_a_beat_writes_nothing_and_tells_to_stop_when_it_is_time(replicas: TestClient, stoker: Stoker) -> None:
    position = stoker.store.position()
    assert replicas.post(f"{CHIEF}/beat").json() == {}
    assert stoker.store.position() == position
    move(stoker, AttemptState.STOPPING)
    assert replicas.post(f"{CHIEF}/beat").json() == {"stop": True}
    assert replicas.post(f"{CHIEF.replace('chief-0', 'ps-0')}/beat").status_code == 404


def test_whatever_a_replica_says_is_a_sign_of_life(stoker: Stoker) -> None:
    clock = ManualClock()
    commands = replace(stoker.services.commands, clock=clock)
    services = replace(stoker.services, commands=commands)
    commands.submit(Submission("p", "j", a_spec(), request=Request(dialect="x", body="{}"), labels={}, owner="u"))
    place = Placement(role="chief", index=0, node="gone")
    attempt = Attempt(
        id="p/j.1",
        job="p/j",
        number=1,
        engine="far",
        placements=(place,),
        placed_at=0.0,
        replicas=(Replica(role="chief", index=0),),
        lease_seconds=60.0,
    )
    stoker.store.commit([Open(attempt=attempt)], by="loop")
    world, leases = stoker.store.world(), services.leases
    app = make_app(services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {stoker.tokens.of_attempt('p/j.1')}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers, raise_server_exceptions=False) as client:
        for path, body in (("beat", {}), ("lines", {"lines": []}), ("report", {"seen": "UP"})):
            assert not leases.run_out(world, clock.now(), are_nodes_new=False), (
                "it is silent from here on, or was heard of"
            )
            clock.advance(79.0)
            client.post(f"{CHIEF}/{path}", json=body)
            clock.advance(79.0)
            assert not leases.run_out(world, clock.now(), are_nodes_new=False), path
            client.post(f"{CHIEF}/beat")
    clock.advance(79.9)
    assert not leases.run_out(world, clock.now(), are_nodes_new=False)
    clock.advance(0.1)
    (note,) = leases.run_out(world, clock.now(), are_nodes_new=False)
    assert (note.seen, note.message) == (
        ReplicaState.LOST,
        "its node gone answers no more, and nothing was heard of it for 80 s",
    )


def test_a_token_of_another_server_is_no_token_here(replicas: TestClient, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = build(
        read_config({}, flags={"home": str(tmp_path / "other")}), url="http://127.0.0.1:1", driver=FakeDriver()
    )
    header = {"Authorization": f"Bearer {other.tokens.of_attempt('p/j.1')}"}
    assert replicas.post(f"{CHIEF}/lines", json={}, headers=header).status_code == 401
    other.store.close()


def test_lines_that_the_server_has_lost_are_asked_for_before_any_others_are_kept(
    replicas: TestClient, stoker: Stoker, tmp_path: Path
) -> None:
    first = {"after": 0, "lines": [a_line(1, "a"), a_line(2, "b")]}
    assert replicas.post(f"{CHIEF}/lines", json=first).json() == {}
    for path in stoker.config.home.glob("logs/*/*.jsonl"):
        path.unlink()
    last = {"after": 2, "lines": [a_line(3, "c")], "seen": "SUCCEEDED"}
    assert replicas.post(f"{CHIEF}/report", json=last).json() == {"after": 0}
    assert replicas.post(f"{CHIEF}/lines", json=first).json() == {}
    assert replicas.post(f"{CHIEF}/lines", json={"after": 2, "lines": [a_line(3, "c")]}).json() == {}
    assert [line.text for line in stoker.services.logs.read("p/j")] == ["a", "b", "c"]
