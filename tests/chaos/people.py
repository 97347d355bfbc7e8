"""Users of a simulated server: they submit, cancel and look, and try again when they hear nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .watch import FINAL, Violated, Watch

IMAGE = "gcr.io/chaos/trainer:1"
Ask = Callable[..., tuple[int, dict[str, Any]] | None]


@dataclass(slots=True)
class People:
    """Everybody who uses the server."""

    dice: random.Random
    ask: Ask  # None: no answer came
    later: Callable[[float, str, Callable[[], None]], None]
    watch: Watch
    queues: list[str]
    acknowledged: dict[str, float] = field(default_factory=dict)  # job id → when
    refused: dict[str, str] = field(default_factory=dict)
    cancels: set[str] = field(default_factory=set)  # acknowledged as well
    steps: dict[str, int] = field(default_factory=dict)
    cursed: set[str] = field(default_factory=set)  # jobs whose programs crash, however often they are tried
    unanswered: set[str] = field(default_factory=set)  # jobs that somebody still tries to submit

    @property
    def all_answered(self) -> bool:
        """Whether every submission was acknowledged or refused."""
        return not self.unanswered

    def come(self, jobs: int, seconds: float) -> None:
        """So many jobs are submitted within so long."""
        for n in range(jobs):
            self._submit_later(f"j{n}", self.dice.uniform(0.0, seconds))
        for _ in range(jobs):
            self.later(self.dice.uniform(0.0, 2 * seconds), "somebody looks", self._look)

    def look_after_nodes(self, nodes: list[str]) -> None:
        """The admin comes, and gives work again to nodes that were cordoned."""
        for name in nodes:
            answer = self.ask("POST", f"/stoker/v1/nodes/{name}:uncordon", {})
            if answer is None or answer[0] >= 500:
                self.later(5.0, f"{name} is uncordoned", lambda name=name: self.look_after_nodes([name]))  # type: ignore[misc]

    def _submit_later(self, name: str, seconds: float) -> None:
        # Some never end by themselves: only the limit of running ends them.
        self.steps[f"p/{name}"] = 10**9 if self.dice.random() < 0.08 else self.dice.randint(2, 25)
        self.unanswered.add(name)
        if self.dice.random() < 0.1:
            self.cursed.add(f"p/{name}")
        path, body = self._v1(name) if self.dice.random() < 0.3 else self._native(name)
        self.later(seconds, f"{name} is submitted", lambda: self._submit(name, path, body, is_first=True))
        if self.dice.random() < 0.25:
            after = seconds + self.dice.uniform(0.0, 400.0)
            self.later(after, f"{name} is cancelled", lambda: self._cancel(name))
        if self.dice.random() < 0.2:
            self.later(seconds + 50.0, f"{name} is labelled", lambda: self._label(name))

    def _native(self, name: str) -> tuple[str, Mapping[str, Any]]:
        dice = self.dice
        gpus = dice.choice((0, 0, 1, 1, 2, 0.5, 4))
        return "/stoker/v1/projects/p/jobs:run", {
            "name": name,
            "command": ["train"],
            "gpus": gpus,
            "workers": dice.choice((0, 0, 0, 1, 2, 3)),
            "queue": dice.choice(self.queues),
            "priority": dice.choice((0, 0, 5)),
            "preemptible": dice.random() < 0.3,
            "resumable": dice.random() < 0.5,
            "max_running_seconds": dice.choice((600.0, 3000.0, 3000.0)),
        }

    def _v1(self, name: str) -> tuple[str, Mapping[str, Any]]:
        servers = self.dice.choice((0, 1, 2))
        given: dict[str, Any] = {
            "scaleTier": "CUSTOM",
            "region": "us-central1",
            "masterType": "n1-standard-4",
            "masterConfig": {"imageUri": IMAGE},
            "scheduling": {"maxRunningTime": "3000s"},
        }
        if servers:
            given |= {"parameterServerType": "n1-standard-4", "parameterServerCount": str(servers)}
            given |= {"parameterServerConfig": {"imageUri": IMAGE}}
        return "/v1/projects/p/jobs", {"jobId": name, "trainingInput": given}

    def _submit(self, name: str, path: str, body: Mapping[str, Any], *, is_first: bool) -> None:
        job = f"p/{name}"
        answer = self.ask("POST", path, body, may_be_cut=is_first)
        if answer is None or answer[0] in (0, 429, 503):
            self.later(
                self.dice.uniform(0.5, 6.0), f"{name} again", lambda: self._submit(name, path, body, is_first=False)
            )
            return
        self.unanswered.discard(name)
        if answer[0] < 300 or (answer[0] == 409 and not is_first):
            self.acknowledged[job] = 0.0
            self.watch.look()
            if job not in self.watch.jobs:
                raise Violated("8 acknowledged jobs exist", f"{job} was acknowledged, and is not written")
        else:
            self.refused[job] = str(answer[1])

    def _cancel(self, name: str) -> None:
        job = f"p/{name}"
        if job not in self.acknowledged:
            return
        answer = self.ask("POST", f"/v1/projects/p/jobs/{name}:cancel", {})
        if answer is None or answer[0] in (0, 429, 503):
            self.later(self.dice.uniform(0.5, 6.0), f"{name} is cancelled", lambda: self._cancel(name))
        elif answer[0] < 300:
            self.cancels.add(job)
            self.watch.look()
            known = self.watch.jobs[job]
            if not known.is_cancelled and known.state not in FINAL:
                raise Violated(
                    "8 acknowledged jobs exist", f"the cancelling of {job} was acknowledged, and is not written"
                )

    def _label(self, name: str) -> None:
        if f"p/{name}" in self.acknowledged:
            self.ask(
                "PATCH",
                f"/v1/projects/p/jobs/{name}?updateMask=labels",
                {"labels": {"n": str(self.dice.random())[2:8]}},
            )

    def _look(self) -> None:
        paths = [
            "/stoker/v1/jobs",
            "/stoker/v1/projects/p/jobs",
            "/stoker/v1/nodes",
            "/stoker/v1/queue",
            "/v1/projects/p/jobs",
        ]
        if self.acknowledged:
            name = self.dice.choice(sorted(self.acknowledged)).removeprefix("p/")
            paths += [f"/stoker/v1/projects/p/jobs/{name}", f"/v1/projects/p/jobs/{name}"]
            paths += [f"/stoker/v1/projects/p/jobs/{name}/explain"]
        self.ask("GET", self.dice.choice(paths), None)
