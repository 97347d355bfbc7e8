"""A job in the hands of a program."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy
import pytest

import stoker as sdk
from stoker.app import Stoker
from stoker.client.answers import Explanation, Moments, Sooner
from stoker.client.client import Client
from stoker.client.jobs import Job
from stoker.core.errors import BadSpec, NotFound, StokerError


@pytest.fixture
def job(client: Client, folder: Path) -> Job:
    """A job that waits, with a directory."""
    client.run("local", {"name": "r", "command": ["true"], "gpus": 4, "job_dir": "gs://some-bucket/out"})
    return sdk.get("r")


def printed(stoker: Stoker, *texts: str) -> None:
    """Lines that it has printed."""
    lines = [{"n": n, "t": 1.5, "s": "out", "m": text} for n, text in enumerate(texts, start=1)]
    stoker.services.logs.append("local/r.1", "chief-0", lines)


def ended(job: Job, stoker: Stoker) -> Job:
    """The same job, cancelled."""
    job.cancel()
    stoker.loop.settle_down()
    return job


def test_it_knows_its_state(job: Job, stoker: Stoker) -> None:
    assert (repr(job), job.state, job.is_done) == ("Job('r', project='local')", "QUEUED", False)
    assert (ended(job, stoker).state, job.is_done) == ("CANCELLED", True)


def test_a_name_that_nobody_has(client: Client, folder: Path) -> None:
    with pytest.raises(NotFound):
        sdk.get("nothing")


def test_the_newest_first(client: Client, folder: Path) -> None:
    for n in range(5):
        client.run("q", {"name": f"j{n}", "command": ["true"]})
    assert [job.name for job in sdk.jobs(project="q", limit=3)] == ["j4", "j3", "j2"]
    assert len(sdk.jobs(project="q")) == 5 and sdk.jobs() == []


def test_its_lines(job: Job, stoker: Stoker) -> None:
    printed(stoker, "a", "b", "c")
    found = list(job.logs())
    assert [str(line) for line in found] == ["a", "b", "c"]
    assert (found[0].replica, found[0].stream, found[0].time) == ("chief-0", "out", 1.5)
    assert list(job.logs(after=found[0].sequence)) == found[1:]
    assert list(job.logs(stream="err")) == []
    with pytest.raises(BadSpec, match="worker-7"):
        list(job.logs(replica="worker-7"))
    assert [str(line) for line in ended(job, stoker).logs(follow=True)] == ["a", "b", "c"]


def test_who_waits_for_what_failed_is_told_so(job: Job, stoker: Stoker) -> None:
    ended(job, stoker)
    with pytest.raises(sdk.JobFailed, match="r CANCELLED: The job was cancelled by") as failed:
        job.wait()
    assert (failed.value.state, failed.value.exit_code, failed.value.name) == ("CANCELLED", 1, "r")
    assert isinstance(failed.value, StokerError) and "job.logs()" in failed.value.fix
    assert job.wait(check=False) == "CANCELLED"


def answering(*events: dict[str, Any]) -> Job:
    """A job whose server tells these events."""
    lines = "".join(httpx.Response(200, json=event).text + "\n" for event in events)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=lines))
    return Job("r", "local", Client("http://127.0.0.1:7077", transport=transport, pause=lambda _: None))


def test_what_succeeded_is_told_too() -> None:
    end = {"kind": "end", "state": "SUCCEEDED", "exit_code": 0, "message": ""}
    assert answering({"kind": "state", "state": "RUNNING"}, end).wait() == "SUCCEEDED"


def test_nobody_waits_for_ever_who_does_not_want_to() -> None:
    with pytest.raises(TimeoutError, match="r has not ended within 0 s; it goes on"):
        answering({"kind": "state", "state": "RUNNING"}).wait(timeout_seconds=0)


@pytest.mark.parametrize("seconds", [0, -1, 0.001, numpy.float32(0)])
def test_whoever_waits_looks_once_at_least(job: Job, stoker: Stoker, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        job.wait(seconds)
    assert ended(job, stoker).wait(seconds, check=False) == "CANCELLED"
    with pytest.raises(sdk.JobFailed):
        job.wait(seconds)


def test_the_first_look_is_in_no_hurry() -> None:
    """A server may take longer to answer than there is time to wait."""
    asked: list[tuple[str, float]] = []

    def slow(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.params["follow"], request.extensions["timeout"]["read"]))
        return httpx.Response(200, json={"kind": "end", "state": "SUCCEEDED", "exit_code": 0, "message": ""})

    client = Client("http://127.0.0.1:7077", transport=httpx.MockTransport(slow))
    assert Job("r", "local", client).wait(timeout_seconds=0) == "SUCCEEDED"
    assert asked == [("false", 60.0)]


@pytest.mark.parametrize(
    ("field", "ask"),
    [
        ("timeout_seconds", lambda job: job.wait("1")),
        ("timeout_seconds", lambda job: job.wait(math.nan)),
        ("replica", lambda job: list(job.logs(replica="\ud800"))),
        ("stream", lambda job: list(job.logs(stream=5))),
        ("after", lambda job: list(job.logs(after=-1))),
        ("name", lambda job: job.download(5)),
        ("name", lambda job: job.download("")),
        ("name", lambda job: job.download("/")),
        ("to", lambda job: job.download("model", to=5)),
        ("name", lambda _: sdk.get(5)),  # type: ignore[arg-type]
        ("project", lambda _: sdk.get("r", project=5)),  # type: ignore[arg-type]
        ("limit", lambda _: sdk.jobs(limit=-1)),
        ("limit", lambda _: sdk.jobs(limit="x")),  # type: ignore[arg-type]
        ("url", lambda _: sdk.connect(5)),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_told_by_its_name(job: Job, field: str, ask: Callable[[Job], object]) -> None:
    with pytest.raises(BadSpec) as refused:
        ask(job)
    assert refused.value.violations[0].field == field and refused.value.fix


def test_none_of_them_are_none(job: Job) -> None:
    assert sdk.jobs(limit=0) == []


def test_why_it_waits(job: Job) -> None:
    found = job.explain()
    assert (found.state, found.position) == ("QUEUED", 1) and str(found).startswith("QUEUED: ")
    assert str(Explanation(state="QUEUED", code="X", text="why", action="what")) == "QUEUED: why → what"


def test_when_it_will_start_and_what_would_start_it_sooner() -> None:
    words = {"state": "QUEUED", "code": "NO_ROOM", "text": "t", "action": "a", "held_by": ["p/x"], "newer": 1}
    at, soon = {"low": 1.0, "middle": 2.0, "high": None}, {"low": 1.0, "middle": 1.0, "high": 1.0}
    way = {"change": "workers", "text": "with 2 workers", "starts": {"at": soon, "draws": 40}, "sooner_seconds": 1.0}
    found = Explanation.of(
        {**words, "starts": {"at": at, "draws": 40}, "what_if": [way], "ends": None, "ahead": ["p/y"]}
    )
    assert found.starts == Moments(low=1.0, middle=2.0, high=None) and found.ends is None
    assert found.sooner == (Sooner(text="with 2 workers", starts=Moments(low=1.0, middle=1.0, high=1.0), seconds=1.0),)
    assert (found.held_by, found.ahead) == (("p/x",), ("p/y",))
    running = Explanation.of({**words, "starts": None, "ends": at, "running_since": 5.0})
    assert running.ends == Moments(low=1.0, middle=2.0, high=None) and running.starts is None and running.sooner == ()


def test_what_it_took(job: Job) -> None:
    found = job.metrics()
    assert (found.state, found.attempts, found.running_seconds, found.cost_usd) == ("QUEUED", 0, 0.0, None)
    assert found.cost_notes == ("the chief names no machine type, so no price is known",)


def test_its_files(job: Job, client: Client, folder: Path) -> None:
    assert job.artifacts() == []
    client.upload(folder / "train.py", "gs://some-bucket/out/model/weights.h5")
    (found,) = job.artifacts()
    assert (found.name, found.uri, found.size_bytes) == (
        "model/weights.h5",
        "gs://some-bucket/out/model/weights.h5",
        17,
    )
    assert job.download(found.name) == Path("weights.h5")
    assert job.download(found.name, folder / "other").read_text() == "print('trained')\n"
    with pytest.raises(NotFound):
        job.download("model/nothing")
    for nowhere in ("/missing/x", folder / "train.py" / "x"):
        with pytest.raises(BadSpec, match=r"to: .* cannot be written: N") as refused:
            job.download(found.name, to=nowhere)
        assert "folder" in refused.value.fix


def test_a_directory_that_is_none_or_the_servers_own(client: Client, folder: Path) -> None:
    client.run("local", {"name": "none", "command": ["true"]})
    client.run("local", {"name": "plain", "command": ["true"], "job_dir": "/shared/out"})
    with pytest.raises(NotFound, match="has no directory"):
        sdk.get("none").download("x")
    with pytest.raises(BadSpec, match="read the file there"):
        sdk.get("plain").download("x")


def test_all_there_is_to_say(job: Job) -> None:
    assert (job.describe()["name"], job.describe()["machines"][0]["accelerators"]) == ("r", 4)
