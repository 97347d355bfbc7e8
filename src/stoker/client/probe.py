"""A probe: the same program trains for a short while on each of several kinds of hardware.

Every candidate is a job of its own, one after the other so that none disturbs another, and is ended as soon as enough of its
steps were seen.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.core.errors import BadSpec, Conflict, NotReady, StokerError, Violation
from stoker.core.states import FINAL_JOB_STATES

from .comparison import Measured
from .job_body import camel_keys

Row = Mapping[str, Any]

_CANDIDATE = re.compile(
    r"(?:(?P<machines>\d{1,4})\*)?(?P<what>(?i:cpu)|(?:(?P<count>\d{1,3})x)?(?P<name>[\w.-]+?))(?:@(?P<host>[\w-]+))?"
)
_HOW = "write cpu, 2xT4, 3*1xT4 (three machines), 2xT4@n1-standard-16 or n1-standard-8, several with commas"
_LOOK_SECONDS = 1.0
_END_SECONDS = 120.0
_MOST_POINTS = 1000
ANY = "GPU"
"""Of whichever type: for plain commands, which need not name one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Some hardware: machines that are alike, one for the chief and the others for workers."""

    text: str  # as it was written
    machines: int = 1
    accelerator: str = ""  # by its name in the API; empty: none; ANY: of whichever type
    count: int = 0  # of them in each machine
    machine_type: str = ""  # empty: that of the job, if it can be

    @property
    def devices(self) -> int:
        """What trains: accelerators, or machines that have none."""
        return self.machines * max(1, self.count)

    @property
    def name(self) -> str:
        """As a part of a job's name."""
        return re.sub(r"\W+", "_", self.text)


def candidates_of(text: str) -> list[Candidate]:
    """`1xT4,2xT4,cpu`. Raises BadSpec."""
    found = [_candidate(part.strip()) for part in text.split(",") if part.strip()]
    if not found:
        raise BadSpec([Violation("--try", "names nothing to try")], fix=_HOW)
    seen = dict[Any, str]()
    for one in found:
        same = seen.setdefault(replace(one, text=""), one.text)
        if same is not one.text:
            raise BadSpec([Violation("--try", f"{one.text!r} is there twice")])
    return found


def _candidate(text: str) -> Candidate:
    from stoker.hardware.accelerators import find_accelerator
    from stoker.hardware.machines import find_machine_type

    parts = _CANDIDATE.fullmatch(text)
    if parts is None or parts["machines"] == "0" or parts["count"] == "0":
        raise BadSpec([Violation("--try", f"{text[:80]!r} is no hardware")], fix=_HOW)
    machines, host = int(parts["machines"] or 1), parts["host"] or ""
    carrier = find_machine_type(host) if host else None
    if host and carrier is None:
        raise BadSpec([Violation("--try", f"{host[:80]!r} is not a machine type")], fix="see stoker machines")
    if parts["what"].lower() == "cpu":
        if carrier is not None and carrier.accelerator:
            raise BadSpec([Violation("--try", f"{host} has accelerators built in: write {host} alone")])
        return Candidate(text=text, machines=machines, machine_type=host)
    accelerator, machine = find_accelerator(parts["name"]), find_machine_type(parts["name"])
    if accelerator is None and parts["name"].upper() == ANY:
        return Candidate(
            text=text, machines=machines, accelerator=ANY, count=int(parts["count"] or 1), machine_type=host
        )
    if accelerator is not None:
        count = int(parts["count"] or 1)
        return Candidate(text=text, machines=machines, accelerator=accelerator.name, count=count, machine_type=host)
    if machine is None or parts["count"] or host:
        raise BadSpec([Violation("--try", f"{parts['name'][:80]!r} is neither a GPU nor a machine type")], fix=_HOW)
    return Candidate(
        text=text,
        machines=machines,
        accelerator=machine.accelerator,
        count=int(machine.accelerator_count),
        machine_type=machine.name,
    )


def body_of(body: Mapping[str, Any], candidate: Candidate) -> dict[str, Any]:
    """The Job of AI Platform v1 that trains on a candidate: a chief, and workers like it. Raises BadSpec."""
    if candidate.accelerator == ANY:
        raise BadSpec([Violation("--try", "which GPU? A job names its type")], fix=_HOW)
    job = copy.deepcopy(dict(body))
    asked = job["trainingInput"]
    machine, config = _machine(asked, candidate), camel_keys(table_of(asked, "masterConfig"))
    config.pop("acceleratorConfig", None)
    if candidate.count and (candidate.accelerator, candidate.count) != _built_in(machine):
        config["acceleratorConfig"] = {"count": str(candidate.count), "type": candidate.accelerator}
    roles = ("parameterServer", "evaluator", "worker")
    for field in [f"{role}{part}" for role in roles for part in ("Type", "Count", "Config")]:
        asked.pop(field, None)
    asked.update(scaleTier="CUSTOM", masterType=machine, masterConfig=config)
    if candidate.machines > 1:
        workers = {"workerType": machine, "workerCount": str(candidate.machines - 1), "workerConfig": config}
        asked.update(copy.deepcopy(workers))
    return job


def table_of(asked: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A part of a Job that is a table, or is not there. Raises BadSpec."""
    found = asked.get(name)
    if found is not None and not isinstance(found, dict):
        raise BadSpec([Violation(name, f"{str(found)[:80]!r} is not a table")])
    return dict(found or {})


def _machine(asked: Mapping[str, Any], candidate: Candidate) -> str:
    """The machine type: the candidate's, or the job's own, or the one most like it that can carry the accelerators.

    What is not a machine type stays as it is: the rules of a job say what is wrong with it.
    """
    from stoker.hardware.explain import nearest_hosts
    from stoker.hardware.limits import valid_counts
    from stoker.hardware.machines import DEFAULT_MACHINE_TYPE, find_machine_type

    if candidate.machine_type:
        return candidate.machine_type
    name = str(asked.get("masterType") or _of_tier(asked) or DEFAULT_MACHINE_TYPE)
    own = find_machine_type(name)
    if own is None:
        return name
    if own.accelerator or own.legacy:
        own = find_machine_type(own.gce_equivalent) or own
    if not candidate.count:
        return own.name if not own.accelerator else DEFAULT_MACHINE_TYPE
    if candidate.count in valid_counts(own.name, candidate.accelerator):
        return own.name
    hosts = nearest_hosts(own, candidate.accelerator, candidate.count)
    return hosts[0] if hosts else own.name


def _of_tier(asked: Mapping[str, Any]) -> str:
    """The chief's machine type in a scale tier; empty: it has none."""
    from stoker.hardware.tiers import find_tier, tier_groups

    tier = find_tier(str(asked.get("scaleTier") or ""))
    return next((group.machine_type for group in (tier_groups(tier) if tier else ()) if group.role == "chief"), "")


def _built_in(machine_type: str) -> tuple[str, float]:
    from stoker.hardware.machines import find_machine_type

    found = find_machine_type(machine_type)
    return (found.accelerator, found.accelerator_count) if found is not None else ("", 0)


def command_of(asked: Mapping[str, Any], candidate: Candidate) -> dict[str, Any]:
    """The plain command on a candidate. Raises BadSpec."""
    if candidate.machine_type:
        problem = "a plain command asks for no machine type: write cpu, 2xT4 or 3*1xT4, with --cpus and --memory"
        raise BadSpec([Violation("--try", problem)])
    kind = "" if candidate.accelerator == ANY else candidate.accelerator
    return {**asked, "gpus": candidate.count, "gpu_type": kind, "workers": candidate.machines - 1}


class Probe:
    """The jobs of one probe."""

    def __init__(
        self,
        client: Any,
        project: str,
        submit: Callable[[Candidate], str],
        *,
        seconds: float,
        limit_seconds: float,
        said: Callable[[str], None],
    ) -> None:
        """`submit` returns the job's name. `seconds`: so much of its training is looked at; `limit_seconds`: for no longer is it
        waited until then, its turn in the queue included."""
        self._client = client
        self._project = project
        self._submit = submit
        self._seconds = seconds
        self._limit_seconds = limit_seconds
        self._said = said

    def measured(self, candidate: Candidate) -> Measured:
        """How the program trains on a candidate. What is not to be had here is a problem of it, and no error."""
        job = ""
        try:
            job = self._submit(candidate)
            try:
                problem, training = self._watch(job)
            finally:
                self._end(job)
            if problem:
                return _unmeasured(candidate, job, problem)
            details, took = self._client.details(self._project, job), self._client.metrics(self._project, job)
            return _measured(candidate, details, took, training)
        except StokerError as error:
            return _unmeasured(candidate, job, _why(error))

    def _watch(self, job: str) -> tuple[str, Row]:
        """Why nothing was measured, or how it trains."""
        until, state = time.monotonic() + self._limit_seconds, ""
        while True:
            details = self._client.details(self._project, job)
            training = self._client.steps(self._project, job, points=_MOST_POINTS)
            if details["state"] != state:
                state = details["state"]
                self._said(f"{job}: {state.lower()}")
            seen = _seconds_seen(training)
            is_over = state in map(str, FINAL_JOB_STATES)
            if seen and (seen >= self._seconds or state == "SUCCEEDED"):
                has_rate = training["replicas"][0]["steps_per_second"]
                return "" if has_rate else "it reports values, and tells of no steps", training
            if is_over:
                return self._why_not(details, training), training
            if time.monotonic() > until:
                waits = self._client.explain(self._project, job)["text"] if state == "QUEUED" else _too_slow(training)
                return f"given up after {self._limit_seconds:g} s: {waits}", training
            time.sleep(_LOOK_SECONDS)

    def _why_not(self, details: Row, training: Row) -> str:
        if details["state"] != "SUCCEEDED":
            died = self._client.explain(self._project, details["name"])["diagnosis"]
            lines = (died and (died["evidence"] or died["title"])) or details["message"] or "nobody knows why"
            return f"it ended {details['state']}: {lines.splitlines()[0]} (stoker why {details['name']})"
        if training["replicas"]:
            return "it was over after its first step: give it more to do"
        return "it told of no steps: in a loop of its own, call stoker.step(examples=…) once a step"

    def _end(self, job: str) -> None:
        """End a candidate's job, so that its machines are free; where no server can be reached, say how to free them."""
        until = time.monotonic() + _END_SECONDS
        while True:
            try:
                if self._client.details(self._project, job)["state"] in map(str, FINAL_JOB_STATES):
                    return
                self._client.cancel(self._project, job)
            except Conflict:
                pass  # it stops already, or has ended meanwhile
            except StokerError as error:
                if time.monotonic() > until:
                    self._said(f"{job} may still run ({error}): stoker jobs cancel {job}")
                    return
            if time.monotonic() > until:
                self._said(f"{job} is being stopped, which takes long")
                return
            time.sleep(_LOOK_SECONDS / 4)


def _seconds_seen(training: Row) -> float:
    """For how long the chief has trained since its first step."""
    series = training["replicas"][0]["series"] if training["replicas"] else []
    return float(series[-1]["at"] - series[0]["at"]) if series else 0.0


def _too_slow(training: Row) -> str:
    return "it trains, but slowly" if training["replicas"] else "it has told of no steps"


def _why(error: StokerError) -> str:
    violations = error.violations if isinstance(error, BadSpec | NotReady) else ()
    return "; ".join(violation.description for violation in violations) or str(error)


def _unmeasured(candidate: Candidate, job: str, problem: str) -> Measured:
    return Measured(
        candidate=candidate.text, job=job, problem=problem, kind=candidate.accelerator, devices=candidate.devices
    )


def _measured(candidate: Candidate, details: Row, took: Row, training: Row) -> Measured:
    replicas: Sequence[Row] = training["replicas"]
    chief, examples = replicas[0], [replica["examples_per_second"] for replica in replicas]
    rate, epoch = chief["steps_per_second"], chief["epoch_steps"]
    hours = took["machine_hours"] / max(1, details["replicas"])
    return Measured(
        candidate=candidate.text,
        job=details["name"],
        machines=f"{details['replicas']} x {_size(details['machines'][0])}",
        size=_size(details["machines"][0]),
        kind=candidate.accelerator,
        devices=candidate.devices,
        in_step=training["replicas_in_step"],
        steps_per_second=rate,
        examples_per_second=sum(examples) if all(examples) else None,
        data_wait_share=_most(replicas, "data_wait_share"),
        together_share=_most(replicas, "together_share"),
        epoch_seconds=epoch / rate if epoch and rate else None,
        usd_per_hour=took["cost_usd"] / hours if took["cost_usd"] is not None and hours else None,
    )


def _size(machine: Row) -> str:
    return machine["machine_type"] or f"{machine['vcpus']:g} vCPU"


def _most(replicas: Sequence[Row], name: str) -> float | None:
    return max((replica[name] for replica in replicas if replica[name] is not None), default=None)
