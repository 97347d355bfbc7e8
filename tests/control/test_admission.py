"""What a site refuses at submission: queues that it does not have, and what a queue could never hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.control.admission import look_at_quota
from stoker.control.submission import Submission
from stoker.core.errors import NotReady
from stoker.core.job import Request
from stoker.core.site import Queue, Quota, Site
from stoker.core.spec import ANY_ACCELERATOR, JobSpec
from stoker.core.states import JobState
from stoker.scheduling.rules import rules_of
from tests.builders import a_house, a_node, a_spec


def a_quota(own: float, borrowing: float | None = None, lending: float | None = None) -> Quota:
    """So many devices."""
    return Quota(
        nominal_milli=round(own * 1000),
        borrowing_milli=None if borrowing is None else round(borrowing * 1000),
        lending_milli=None if lending is None else round(lending * 1000),
    )


def a_site(cohort: str = "", **queues: dict[str, Quota]) -> Site:
    """Queues with these quotas, all of one cohort."""
    return Site(queues={name: Queue(name=name, cohort=cohort, quotas=quotas) for name, quotas in queues.items()})


def refusal(site: Site, spec: JobSpec) -> str:
    """Why its queue could never hold it; empty if it could."""
    nodes = [a_node("n0", 8), a_node("n1", 8, accelerator="V100")]
    refused = look_at_quota(spec, nodes, rules_of(site), "the field")
    if refused is None:
        return ""
    (violation,) = refused.violations
    assert violation.field == "the field"
    return violation.description


def of_types(spec: JobSpec, accelerator: str) -> JobSpec:
    """The same, on these accelerators."""
    groups = [replace(group, machine=replace(group.machine, accelerator=accelerator)) for group in spec.groups]
    return replace(spec, groups=tuple(groups))


def test_a_queue_that_there_is_not_is_refused_with_the_nearest(tmp_path: Path) -> None:
    house = a_house(tmp_path, site=a_site(default={}, research={}))
    with pytest.raises(NotReady, match="did you mean research") as refused:
        house.submit(queue="resaerch")
    assert [v.field for v in refused.value.violations] == ["job.labels.stoker-queue"]
    with pytest.raises(NotReady, match="there are default, research"):
        house.submit(queue="x" * 1000)
    house.submit(queue="research")
    assert house.job().spec.queue == "research"


def test_a_rehearsal_needs_a_queue_but_no_quota(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:0", site=a_site(default={"GPU": a_quota(0), "CPU": a_quota(0)}))
    request = Request(dialect="test", body="{}")
    house.commands.submit(Submission("p", "j", a_spec(gpus=4), request=request, labels={}, owner="u", rehearse=True))
    house.tick()
    assert house.job().state is JobState.ACTIVE, "a quota does not hold up what runs on nodes of its own"
    with pytest.raises(NotReady):
        house.commands.submit(
            Submission("p", "k", a_spec(queue="no"), request=request, labels={}, owner="u", rehearse=True)
        )


def test_what_a_queue_could_never_hold() -> None:
    site = a_site(small={"T4": a_quota(4)}, large={"T4": a_quota(8)})
    assert not refusal(site, a_spec(gpus=4, queue="small"))
    assert refusal(site, a_spec(gpus=4, workers=1, queue="small")) == (
        "the queue small could never hold 2 × 4 T4: of T4 it may hold 4; the queue large could"
    )
    assert "ask for at most 4" in refusal(site, a_spec(gpus=4, workers=3, queue="small"))


def test_all_types_together_vcpus_and_regions_count_too() -> None:
    assert "of GPU it may hold 2" in refusal(a_site(default={"GPU": a_quota(2)}), a_spec(gpus=4))
    assert "of CPU it may hold 1" in refusal(a_site(default={"CPU": a_quota(1)}), a_spec(vcpus=2))
    there = a_site(default={"T4@us-central1": a_quota(2)})
    assert "of T4@us-central1 it may hold 2" in refusal(there, a_spec(gpus=4))
    assert not refusal(there, a_spec(gpus=4, region="europe-west1"))


def test_a_share_counts_as_its_part() -> None:
    site = a_site(default={"T4": a_quota(0.5)})
    assert not refusal(site, a_spec(milli=500))
    assert "0.75 T4: of T4 it may hold 0.5" in refusal(site, a_spec(milli=750))


def test_what_may_be_borrowed_counts() -> None:
    site = a_site("c", default={"T4": a_quota(2)}, other={"T4": a_quota(4, lending=1)})
    assert not refusal(site, a_spec(gpus=3))
    assert "it may hold 3, with all that it may borrow" in refusal(site, a_spec(gpus=4))
    assert not refusal(site, a_spec(gpus=6, queue="other")), "its own four, and the two that the other lends"
    bounded = a_site("c", default={"T4": a_quota(2, borrowing=1)}, other={"T4": a_quota(4)})
    assert not refusal(bounded, a_spec(gpus=3))
    assert "it may hold 3," in refusal(bounded, a_spec(gpus=4))


def test_of_several_types_one_has_to_do() -> None:
    site = a_site(default={"T4": a_quota(2), "V100": a_quota(4)})
    for types in ("T4|V100", "V100|T4", ANY_ACCELERATOR):
        assert not refusal(site, of_types(a_spec(gpus=4), types))
        assert "8 " in refusal(site, of_types(a_spec(gpus=8), types))
    assert not refusal(site, of_types(a_spec(gpus=2, workers=2), "T4|V100")), "two on V100, and one on T4"
    assert "T4 and V100 it may hold 6" in refusal(site, of_types(a_spec(gpus=2, workers=3), "T4|V100"))
    assert not refusal(a_site(default={"T4": a_quota(2)}), of_types(a_spec(gpus=8), "T4|V100"))


def test_what_is_accepted_is_what_the_scheduler_could_let_in(tmp_path: Path) -> None:
    """Alone in the house, whatever is not refused starts."""
    for own, lent in ((0, 0), (0, 2), (1, None), (4, 0)):
        site = a_site("c", default={"T4": a_quota(own)}, other={"T4": a_quota(4, lending=lent)})
        for gpus in (1, 2, 4):
            house = a_house(tmp_path / f"{own}-{lent}-{gpus}", "n0:4", site=site)
            try:
                house.submit(gpus=gpus)
            except NotReady:
                continue
            house.tick()
            assert house.job().state is JobState.ACTIVE, (own, lent, gpus)


def test_folders_that_programs_may_not_write_to_are_refused_with_what_the_machine_says(tmp_path: Path) -> None:
    house = a_house(tmp_path)
    problems = {"/etc": "programs may not write to /etc"}
    commands = replace(house.commands, folder_problem=lambda spec: problems.get(spec.job_dir, ""))
    request = Request(dialect="test", body="{}")
    with pytest.raises(NotReady, match="may not write to /etc") as refused:
        commands.submit(Submission("p", "j", replace(a_spec(), job_dir="/etc"), request=request, labels={}, owner="u"))
    assert [v.field for v in refused.value.violations] == ["job_dir"]
    commands.submit(Submission("p", "j", replace(a_spec(), job_dir="/data"), request=request, labels={}, owner="u"))


def test_a_rehearsal_of_more_than_its_machine_runs_is_refused_before_any_node_is_made(tmp_path: Path) -> None:
    house, request = a_house(tmp_path), Request(dialect="x", body="{}")
    commands = replace(house.commands, rehearsal_replicas=200)
    with pytest.raises(NotReady, match=r"1,000,000,001 replicas .* at most 200 at a time: ask for at most 200 with"):
        spec = a_spec(workers=10**9)
        commands.submit(Submission("p", "j", spec, request=request, labels={}, owner="u", rehearse=True))
    commands.submit(Submission("p", "j", a_spec(workers=199), request=request, labels={}, owner="u", rehearse=True))
    assert {(node.most_replicas, node.shares_machine) for node in house.store.nodes() if node.pool} == {(200, True)}


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """A queue that there is not, a package that there is not, and more than any node has: nobody is sent back three times."""
    house = a_house(tmp_path, "n0:4", site=a_site(default={}))
    spec = replace(
        a_spec(gpus=64, queue="none"), program=replace(a_spec().program, packages=("gs://bucket/none.tar.gz",))
    )
    with pytest.raises(NotReady) as refused:
        house.commands.submit(Submission("p", "j", spec, request=Request(dialect="x", body="{}"), owner="u"))
    assert [v.field for v in refused.value.violations] == ["job.labels.stoker-queue", "package_uris", "scale_tier"]
    assert "stoker queue shows them" in refused.value.fix and "upload it first" in refused.value.fix
    assert not house.store.world().jobs
