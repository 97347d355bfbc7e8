"""Hardware to try, as it is written and as it is asked for; and what becomes of a candidate's job."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.client.probe import Candidate, Probe, body_of, candidates_of, command_of
from stoker.core.errors import AlreadyExists, BadSpec, NotReady, Unavailable, Violation

T4 = "NVIDIA_TESLA_T4"


def body(**training: Any) -> dict[str, Any]:
    return {"jobId": "x", "trainingInput": {"pythonModule": "trainer.task", "args": ["--a"], **training}}


def the(text: str) -> Candidate:
    (found,) = candidates_of(text)
    return found


def test_hardware_as_it_is_written() -> None:
    found = candidates_of("1xT4, 3*2xnvidia-tesla-t4 ,cpu,2*cpu@n1-standard-8,V100,2xT4@n1-standard-16,standard_v100")
    assert [(c.machines, c.accelerator, c.count, c.machine_type, c.devices) for c in found] == [
        (1, T4, 1, "", 1),
        (3, T4, 2, "", 6),
        (1, "", 0, "", 1),
        (2, "", 0, "n1-standard-8", 2),
        (1, "NVIDIA_TESLA_V100", 1, "", 1),
        (1, T4, 2, "n1-standard-16", 2),
        (1, "NVIDIA_TESLA_V100", 1, "standard_v100", 1),
    ]
    assert [c.name for c in found][1:4] == ["3_2xnvidia_tesla_t4", "cpu", "2_cpu_n1_standard_8"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" , ", "names nothing to try"),
        ("0xT4", "'0xT4' is no hardware"),
        ("1xT4;cpu", "is no hardware"),
        ("2xFOO", "'FOO' is neither a GPU nor a machine type"),
        ("2xn1-standard-4", "is neither a GPU nor a machine type"),
        ("1xT4@nowhere", "'nowhere' is not a machine type"),
        ("cpu@a2-highgpu-1g", "has accelerators built in"),
        ("cpu,1xT4,cpu", "'cpu' is there twice"),
        ("1xT4,t4", "'t4' is there twice"),
        ("CPU,2*cpu,cpu", "'cpu' is there twice"),
    ],
)
def test_what_is_no_hardware(text: str, why: str) -> None:
    with pytest.raises(BadSpec) as caught:
        candidates_of(text)
    assert why in caught.value.violations[0].description


def test_a_job_of_ai_platform_on_other_hardware() -> None:
    asked = body(
        masterType="n1-standard-8",
        masterConfig={"imageUri": "i", "acceleratorConfig": {"count": "1", "type": "NVIDIA_TESLA_V100"}},
        workerCount="4",
        workerType="n1-standard-8",
        parameterServerCount="2",
        parameterServerType="n1-standard-8",
        evaluatorCount="1",
    )
    gpus = {"imageUri": "i", "acceleratorConfig": {"count": "2", "type": T4}}
    same = {"pythonModule": "trainer.task", "args": ["--a"], "scaleTier": "CUSTOM", "masterType": "n1-standard-8"}
    assert body_of(asked, the("2xT4"))["trainingInput"] == {**same, "masterConfig": gpus}
    assert body_of(asked, the("3*2xT4"))["trainingInput"] == {
        **same,
        "masterConfig": gpus,
        "workerType": "n1-standard-8",
        "workerCount": "2",
        "workerConfig": gpus,
    }
    assert body_of(asked, the("cpu"))["trainingInput"] == {**same, "masterConfig": {"imageUri": "i"}}
    assert asked["trainingInput"]["parameterServerCount"] == "2", "what was given is as it was"


@pytest.mark.parametrize(
    ("master", "text", "machine"),
    [
        (None, "1xT4", "n1-standard-4"),
        (None, "cpu", "n1-standard-4"),
        ("n1-standard-96", "1xT4", "n1-highmem-16"),  # one T4 has 24 vCPUs at most
        ("n1-highmem-8", "1xT4@n1-standard-8", "n1-standard-8"),
        ("standard_v100", "cpu", "n1-standard-8"),  # what it stands for, without its GPU
        ("a2-highgpu-1g", "cpu", "n1-standard-4"),
        ("n1-standard-8", "a2-highgpu-1g", "a2-highgpu-1g"),
        ("n1-standard-8", "1xA100", "a2-highgpu-1g"),
        ("bogus-7", "1xT4", "bogus-7"),  # the rules of a job say what is wrong with it
    ],
)
def test_the_machine_is_the_jobs_own_if_it_can_be(master: str | None, text: str, machine: str) -> None:
    asked = body_of(body(masterType=master), the(text))["trainingInput"]
    assert asked["masterType"] == machine
    assert ("acceleratorConfig" in asked["masterConfig"]) == ("T4" in text), "those that are built in are not attached"


def test_a_tier_has_a_machine_too() -> None:
    asked = {"jobId": "x", "trainingInput": {"scaleTier": "BASIC_GPU"}}
    assert body_of(asked, the("cpu"))["trainingInput"]["masterType"] == "n1-standard-8"


@pytest.mark.parametrize("text", ["3xA100", "2xT4@a2-highgpu-1g", "1xT4@standard_v100", "2xV100@standard_v100"])
def test_what_a_machine_has_not_built_in_is_asked_for(text: str) -> None:
    """So that it is refused, and nothing else is measured under its name."""
    assert body_of(body(), the(text))["trainingInput"]["masterConfig"]["acceleratorConfig"]["count"] == text[0]


def test_a_part_that_is_no_table() -> None:
    with pytest.raises(BadSpec) as caught:
        body_of(body(masterConfig="abc"), the("cpu"))
    assert caught.value.violations[0] == Violation("masterConfig", "'abc' is not a table")
    config = {"accelerator_config": {"count": "1", "type": T4}, "image_uri": "i"}
    assert body_of(body(masterConfig=config), the("cpu"))["trainingInput"]["masterConfig"] == {"imageUri": "i"}


def test_a_plain_command_on_other_hardware() -> None:
    assert command_of({"name": "x"}, the("3*2xT4")) == {"name": "x", "gpus": 2, "gpu_type": T4, "workers": 2}
    assert command_of({}, the("2xgpu")) == {"gpus": 2, "gpu_type": "", "workers": 0}
    with pytest.raises(BadSpec):
        command_of({}, the("n1-standard-8"))
    with pytest.raises(BadSpec):
        body_of(body(), the("2xgpu"))


class Site:
    """A server of which is known what it will say: one look after the other."""

    def __init__(self, *looks: tuple[str, float]) -> None:
        """`looks`: the state, and the seconds since the first step; none below 0."""
        self._looks = list(looks)
        self.cancelled = 0

    def details(self, project: str, job: str) -> dict[str, Any]:
        machine = {"machine_type": "n1-standard-8", "vcpus": 8.0}
        state = "CANCELLED" if self.cancelled else self._looks[0][0]
        return {"name": job, "state": state, "message": "first\nlast", "replicas": 2, "machines": [machine]}

    def steps(self, project: str, job: str, *, points: int) -> dict[str, Any]:
        _, seconds = self._looks[0]
        if len(self._looks) > 1:
            self._looks.pop(0)
        series = [{"at": 10.0}, {"at": 10.0 + seconds}]
        replica = {"steps_per_second": 4.0, "examples_per_second": 64.0, "epoch_steps": 20, "together_share": None}
        waits = [{**replica, "data_wait_share": share, "series": series} for share in (None, 0.25)]
        return {"replicas": waits if seconds >= 0 else [], "replicas_in_step": 2}

    def metrics(self, project: str, job: str) -> dict[str, Any]:
        return {"machine_hours": 0.5, "cost_usd": 0.2}

    def explain(self, project: str, job: str) -> dict[str, Any]:
        return {"text": "no room", "diagnosis": {"evidence": "KeyError: 3", "title": "an error"}}

    def cancel(self, project: str, job: str) -> None:
        self.cancelled += 1


def measured(site: Site, *, limit_seconds: float = 60.0) -> Any:
    probe = Probe(site, "p", lambda _: "job", seconds=5.0, limit_seconds=limit_seconds, said=lambda _: None)
    return probe.measured(the("2*cpu"))


def test_it_is_ended_as_soon_as_enough_was_seen() -> None:
    site = Site(("RUNNING", 6.0))
    found = measured(site)
    assert (found.problem, found.job, found.machines, site.cancelled) == ("", "job", "2 x n1-standard-8", 1)
    assert (found.steps_per_second, found.examples_per_second, found.epoch_seconds) == (4.0, 128.0, 5.0)
    assert (found.data_wait_share, found.together_share) == (0.25, None)
    assert found.usd_per_hour == pytest.approx(0.8), "a quarter of an hour on two machines has cost a fifth of a dollar"


@pytest.mark.parametrize(
    ("look", "problem"),
    [
        (("FAILED", -1.0), "it ended FAILED: KeyError: 3 (stoker why job)"),
        (("SUCCEEDED", -1.0), "it told of no steps: in a loop of its own, call stoker.step(examples=…) once a step"),
        (("SUCCEEDED", 0.0), "it was over after its first step: give it more to do"),
        (("SUCCEEDED", 1.0), ""),
        (("FAILED", 1.0), "it ended FAILED: KeyError: 3 (stoker why job)"),
        (("CANCELLED", 1.0), "it ended CANCELLED: KeyError: 3 (stoker why job)"),
        (("QUEUED", -1.0), "given up after 0 s: no room"),
        (("RUNNING", -1.0), "given up after 0 s: it has told of no steps"),
        (("RUNNING", 1.0), "given up after 0 s: it trains, but slowly"),
    ],
)
def test_what_becomes_of_it(look: tuple[str, float], problem: str) -> None:
    assert measured(Site(look), limit_seconds=0.0).problem == problem


def test_what_is_not_to_be_had_here_is_no_error() -> None:
    def refused(_: Candidate) -> str:
        raise NotReady([Violation("x", "no node here could ever hold it")])

    probe = Probe(Site(), "p", refused, seconds=5.0, limit_seconds=60.0, said=lambda _: None)
    found = probe.measured(the("8xT4"))
    assert (found.problem, found.kind, found.devices) == ("no node here could ever hold it", T4, 8)


def test_a_name_that_is_taken_and_a_server_that_fails_are_of_one_candidate() -> None:
    class Failing(Site):
        def steps(self, project: str, job: str, *, points: int) -> dict[str, Any]:
            raise Unavailable("the server cannot be reached")

    def taken(_: Candidate) -> str:
        raise AlreadyExists("there is a job p/x already")

    probe = Probe(Site(), "p", taken, seconds=5.0, limit_seconds=60.0, said=lambda _: None)
    assert probe.measured(the("cpu")).problem == "there is a job p/x already"
    site = Failing(("RUNNING", -1.0))
    assert measured(site).problem == "the server cannot be reached" and site.cancelled == 1, "it does not go on"
