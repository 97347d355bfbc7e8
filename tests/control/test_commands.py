"""What users may do, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.control.submission import Submission
from stoker.core.errors import AlreadyExists, NotFound, NotReady
from stoker.core.job import Request
from stoker.core.spec import JobSpec, Program
from stoker.core.states import JobState, Wish
from tests.builders import House, a_house, a_spec


def test_a_submitted_job_is_queued_before_any_tick(house: House) -> None:
    house.submit(gpus=2)
    assert (house.job().state, house.job().submitted_at) == (JobState.QUEUED, house.clock.now())


def test_an_id_is_taken_for_good(house: House) -> None:
    house.submit()
    house.commands.cancel("p/j", owner="u")
    house.tick()
    with pytest.raises(AlreadyExists):
        house.submit()


def test_what_no_node_could_ever_hold_is_refused_with_the_nearest_shape(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4 n2:4")
    with pytest.raises(NotReady) as refused:
        house.submit(gpus=4, workers=9)
    assert "10 × 4 T4" in str(refused.value)
    assert "2 worker(s)" in str(refused.value)
    assert "stoker rehearse" in refused.value.fix
    with pytest.raises(NotFound):
        house.job()


def test_what_fits_but_not_now_is_accepted(house: House) -> None:
    house.submit("first", gpus=4)
    house.tick()
    house.submit(gpus=4)
    house.tick()
    reason = house.job().waits
    assert reason is not None and reason.code == "NO_ROOM"


def a_packaged(*packages: str) -> JobSpec:
    return JobSpec(program=Program(packages=packages, module="trainer.task"), groups=a_spec().groups)


def test_a_package_that_is_not_there_fails_the_request_not_the_job(house: House) -> None:
    request = Request(dialect="test", body="{}")
    with pytest.raises(NotReady) as refused:
        house.commands.submit(
            Submission("p", "j", a_packaged("gs://bucket/none.tar.gz"), request=request, labels={}, owner="u")
        )
    assert [v.field for v in refused.value.violations] == ["package_uris"]


def test_cancel_of_nothing(house: House) -> None:
    with pytest.raises(NotFound):
        house.commands.cancel("p/none", owner="u")


def test_cancel_of_an_ended_job_has_no_effect(house: House) -> None:
    house.submit()
    house.commands.cancel("p/j", owner="u")
    house.tick()
    revision = house.job().revision
    house.commands.cancel("p/j", owner="u")
    assert (house.job().state, house.job().revision) == (JobState.CANCELLED, revision)


def test_cancel_is_a_wish_until_the_loop_follows(house: House) -> None:
    house.submit()
    house.commands.cancel("p/j", owner="ana")
    assert (house.job().state, house.job().wish, house.job().wish_why) == (
        JobState.QUEUED,
        Wish.CANCEL,
        "The job was cancelled by ana.",
    )


def test_a_rehearsal_brings_its_own_nodes_and_takes_them_away(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:0")
    spec = a_spec(gpus=4, workers=9, ps=3)
    request = Request(dialect="test", body="{}")
    house.commands.submit(Submission("p", "j", spec, request=request, labels={}, owner="u", rehearse=True))
    assert len(house.store.world().nodes) == 1 + 13
    house.tick()
    attempt = house.store.attempt("p/j.1")
    assert len({place.node for place in attempt.placements}) == 13
    assert {len(place.devices) for place in attempt.placements} == {4, 0}
    house.submit("other", gpus=0)
    house.tick()
    assert house.store.attempt("p/other.1").placements[0].node == "n0", "others do not get a rehearsal's nodes"
    house.commands.cancel("p/j", owner="u")
    house.tick()
    house.engine.gone("p/j.1")
    house.tick()
    assert set(house.store.world().nodes) == {"n0"}


def test_two_projects_may_rehearse_the_same_name(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:0")
    for project in ("pa", "pb"):
        request = Request(dialect="test", body="{}")
        house.commands.submit(
            Submission(project, "same", a_spec(gpus=2), request=request, labels={}, owner="u", rehearse=True)
        )
    house.tick()
    assert len(house.store.world().nodes) == 3
    assert all(house.store.job(f"{project}/same").job.state is JobState.ACTIVE for project in ("pa", "pb"))
