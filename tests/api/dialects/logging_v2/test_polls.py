"""Who reads on from where they were gets every line once, in order, however late lines come: as gcloud does, and page by page."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.dialects.logging_v2.pages import read_page
from stoker.api.dialects.logging_v2.questions import read_question
from stoker.api.dialects.logging_v2.times import timestamp
from stoker.clock import ManualClock
from stoker.core.changes import Explain, Submit
from stoker.core.job import Reason
from stoker.store.logs import Logs
from stoker.store.memory import MemoryStore
from tests.builders import a_job

REPLICAS = ("chief-0", "worker-0")


class Site:
    """A job that runs, its replicas that ship when they can, and its story."""

    def __init__(self, folder: str) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.logs = Logs(Path(folder), self.clock)
        self.services: Any = SimpleNamespace(
            store=self.store, logs=self.logs, commands=SimpleNamespace(clock=self.clock)
        )
        self.store.commit([Submit(job=a_job(workers=1))], by="u")
        self.numbers = count(1)
        self.unshipped: dict[str, list[dict[str, Any]]] = {name: [] for name in REPLICAS}
        self.printed: dict[str, list[str]] = {name: [] for name in REPLICAS}

    def print(self, replica: str, skew: float) -> None:
        """A line of a replica whose clock is not quite right."""
        number = len(self.printed[replica]) + 1
        line = {"n": number, "t": self.clock.now() + skew, "s": "out", "m": f"{replica} {number}"}
        self.unshipped[replica].append(line)
        self.printed[replica].append(line["m"])

    def ship(self, replica: str) -> None:
        """What it has printed arrives."""
        self.logs.append("p/j.1", replica, self.unshipped[replica])
        self.unshipped[replica] = []

    def explain(self) -> None:
        """The service says something."""
        text = f"reason {next(self.numbers)}"
        self.store.commit([Explain(job="p/j", reason=Reason(code="X", text=text))], by="loop")

    def ask(self, filter: str, **more: Any) -> dict[str, Any]:
        """entries.list."""
        body = {"resourceNames": ["projects/p"], "filter": f'resource.labels.job_id="j"{filter}', **more}
        return read_page(self.services, read_question(body), to_the_end=False).answer


@dataclass
class Poller:
    """googlecloudsdk/command_lib/logs/stream.py, in short."""

    site: Site
    hold_back: float
    size: int
    position: str = "1970-01-01T01:00:00.000000000Z"
    insert_id: str = ""
    is_tie: bool = False
    seen: list[dict[str, Any]] = field(default_factory=list)

    def poll(self) -> int:
        """One round. Returns how many lines were new."""
        lower = f'timestamp>="{self.position}"'
        if self.is_tie:
            lower = f'((timestamp="{self.position}" AND insertId>"{self.insert_id}") OR timestamp>"{self.position}")'
        upper = timestamp(int((self.site.clock.now() - self.hold_back) * 1e6))
        found = self.site.ask(f' AND {lower} AND timestamp<"{upper}"', orderBy="timestamp asc", pageSize=self.size).get(
            "entries", []
        )
        return sum(map(self._update, found))

    def _update(self, entry: dict[str, Any]) -> bool:
        time, insert_id = entry["timestamp"], entry["insertId"]
        if time < self.position or (time == self.position and insert_id <= self.insert_id):
            return False
        self.is_tie = time == self.position
        self.position, self.insert_id = time, insert_id
        self.seen.append(entry)
        return True


def check(site: Site, seen: list[dict[str, Any]]) -> None:
    """Every line once, each replica's in its order, times never going back."""
    times = [entry["timestamp"] for entry in seen]
    assert times == sorted(times)
    texts = [entry["jsonPayload"]["message"] for entry in seen]
    for replica in REPLICAS:
        assert [text for text in texts if text.startswith(replica)] == site.printed[replica]
    reasons = [text for text in texts if "reason" in text]
    assert reasons == [f"The job waits: reason {n}." for n in range(1, next(site.numbers))]
    assert len(texts) == len(reasons) + sum(map(len, site.printed.values())) + 2


replicas = st.sampled_from(REPLICAS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("print"), replicas, st.sampled_from([0.0, 0.0, -3.0, 4.0])),
        st.tuples(st.just("ship"), replicas),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.000001, 0.5, 3.0, 20.0])),
        st.tuples(st.just("explain")),
        st.tuples(st.just("poll")),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from([5.0, 0.0]), st.integers(2, 7))
def test_a_follower_gets_every_line_once(steps: list[Any], hold_back: float, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(folder)
        poller = Poller(site, hold_back, size)
        for step, *values in [*steps, *(("ship", name) for name in REPLICAS), ("wait", 60.0)]:
            match step:
                case "print":
                    site.print(*values)
                case "ship":
                    site.ship(*values)
                case "wait":
                    site.clock.advance(*values)
                case "explain":
                    site.explain()
                case "poll":
                    poller.poll()
        while poller.poll():
            pass
        check(site, poller.seen)


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(1, 5))
def test_pages_tell_every_line_once_while_the_log_grows(steps: list[Any], size: int) -> None:
    """What comes in between is told behind the pages before, or by the next question."""
    with tempfile.TemporaryDirectory() as folder:
        site = Site(folder)
        seen: list[dict[str, Any]] = []
        token = ""
        for step, *values in [*steps, *(("ship", name) for name in REPLICAS), ("wait", 60.0), *[("poll",)] * 100]:
            match step:
                case "print":
                    site.print(*values)
                case "ship":
                    site.ship(*values)
                case "wait":
                    site.clock.advance(*values)
                case "explain":
                    site.explain()
                case "poll":
                    answer = site.ask("", pageSize=size, **({"pageToken": token} if token else {}))
                    known = {entry["insertId"] for entry in seen}
                    found = answer.get("entries", [])
                    seen += [entry for entry in found if entry["insertId"] not in known]
                    token = answer.get("nextPageToken", "")
        check(site, seen)
        newest_first = site.ask("", pageSize=1000, orderBy="timestamp desc")["entries"]
        assert newest_first == seen[::-1]
        by_page, token = [], ""
        while token is not None:
            more = {"pageToken": token} if token else {}
            answer = site.ask("", pageSize=size, orderBy="timestamp desc", **more)
            by_page += answer["entries"]
            token = answer.get("nextPageToken")
        assert by_page == newest_first
