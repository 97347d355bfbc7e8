"""What an attempt died of, and whether it is tried again: stories on the fake engine, with the signs that replicas bear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.core.errors import Conflict
from stoker.core.spec import Limits, Retry
from stoker.core.states import FATE, AttemptState, Cause, Fate, JobState, ReplicaState, Standing
from stoker.runtime.exits import PERMANENT, exit_class
from stoker.runtime.signature_row import NEVER
from stoker.runtime.signature_table import AGAIN, EFFECTS, SIGNATURES
from stoker.scheduling.doctor import Again, Diagnosis, decision, diagnose, is_infra
from stoker.scheduling.failures import FAILURES, Blame, of_exit_code
from tests.builders import House, a_house

UP, FAILED, LOST = ReplicaState.UP, ReplicaState.FAILED, ReplicaState.LOST


def running(house: House, **spec: object) -> str:
    """A job that runs. Returns its attempt's id."""
    house.submit(**spec)
    return started(house, 1)


def started(house: House, number: int) -> str:
    """The attempt of this number runs, after the pause before it."""
    house.tick(seconds=60)
    house.engine.set(f"p/j.{number}", UP)
    house.tick()
    return f"p/j.{number}"


def fails(house: House, attempt: str, *replicas: str, code: int | None = 1, sign: str = "", evidence: str = "") -> None:
    """Replicas fail; what is told to stop then has ended a moment later."""
    house.engine.set(attempt, FAILED, *replicas, exit_code=code, sign=sign, evidence=evidence)
    house.tick()
    house.clock.advance(0.01)
    for name in house.engine.stopping():
        house.engine.gone(name)
    house.tick()


def diagnosis(house: House, attempt: str = "p/j.1") -> Diagnosis:
    """What is known of an attempt."""
    found = diagnose(house.job(), house.store.attempt(attempt))
    assert found is not None
    return found


def test_the_sign_names_the_cause_and_its_line_is_the_evidence(house: House) -> None:
    attempt = running(house, workers=1)
    fails(house, attempt, "worker-0", sign="MISSING_MODULE", evidence="ModuleNotFoundError: No module named 'x'")
    assert diagnosis(house) == Diagnosis(
        code="MISSING_MODULE",
        again=Again.NEVER,
        replica="worker-0",
        node="n0",
        evidence="ModuleNotFoundError: No module named 'x'",
    )
    assert house.job().state is JobState.FAILED


@pytest.mark.parametrize("sign", ["CUDA_OOM", "MISSING_MODULE", "HOST_OOM", "BAD_ARGUMENT"])
def test_what_would_happen_again_is_never_tried_again_even_if_it_was_killed(house: House, sign: str) -> None:
    fails(house, running(house, gpus=1), code=137, sign=sign)
    assert house.job().state is JobState.FAILED


def test_an_error_of_the_node_is_tried_again_on_another_whatever_the_exit_code(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4")
    attempt = running(house, gpus=4)
    blamed = house.store.attempt(attempt).placements[0].node
    fails(house, attempt, code=1, sign="GPU_ECC")
    assert (house.job().state, house.job().avoid, house.job().failures) == (JobState.QUEUED, (blamed,), 1)
    assert house.job().signs == (("GPU_ECC", blamed),)
    started(house, 2)
    assert {place.node for place in house.store.attempt("p/j.2").placements} == {"n0", "n1"} - {blamed}


def test_it_goes_back_to_that_node_rather_than_wait(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4")
    attempt = running(house, gpus=4)
    house.submit("other", gpus=4)
    house.tick()
    fails(house, attempt, code=1, sign="GPU_ECC")
    again = started(house, 2)
    assert house.store.attempt(again).placements == house.store.attempt(attempt).placements


def test_where_there_is_no_other_node_an_error_of_the_node_ends_the_job(house: House) -> None:
    fails(house, running(house, gpus=4), code=1, sign="GPU_ECC")
    assert house.job().state is JobState.FAILED
    assert house.job().message.endswith("There is no other node to try.")


def test_but_not_if_its_exit_code_says_that_it_may_pass(house: House) -> None:
    fails(house, running(house, gpus=4), code=137, sign="GPU_ECC")
    assert house.job().state is JobState.QUEUED


def test_the_same_on_another_node_is_the_programs_fault(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4 n2:4")
    fails(house, running(house, gpus=4), sign="NO_SPACE")
    assert house.job().state is JobState.QUEUED
    fails(house, started(house, 2), sign="NO_SPACE")
    assert house.job().state is JobState.FAILED
    assert house.job().message.endswith("It failed so before, on another node.")


def test_broken_devices_on_two_nodes_prove_nothing(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4 n2:4")
    fails(house, running(house, gpus=4), sign="GPU_ECC")
    fails(house, started(house, 2), sign="GPU_ECC")
    assert (house.job().state, house.job().failures) == (JobState.QUEUED, 2)


def test_a_job_that_asked_for_no_gpu_is_not_sent_elsewhere_to_find_one(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:0 n1:0")
    fails(house, running(house), sign="NO_GPU")
    assert house.job().state is JobState.FAILED


def test_an_effect_is_explained_by_the_cause_that_is_seen_later(house: House) -> None:
    attempt = running(house, workers=2)
    house.engine.set(attempt, FAILED, "worker-1", exit_code=1, sign="PEER_GONE", evidence="Connection reset by peer")
    house.tick(seconds=1)
    assert house.store.attempt(attempt).cause is Cause.REPLICA_CRASHED
    fails(house, attempt, "chief-0", sign="CUDA_OOM", evidence="CUDA out of memory")
    assert (diagnosis(house).code, diagnosis(house).replica) == ("CUDA_OOM", "chief-0")
    assert house.store.attempt(attempt).cause is Cause.REPLICA_FAILED
    assert house.job().state is JobState.FAILED and "master 0" in house.job().message


def test_an_effect_without_a_cause_may_pass(house: House) -> None:
    fails(house, running(house, workers=1), "worker-0", code=1, sign="COLLECTIVE_TIMEOUT")
    assert (house.job().state, diagnosis(house).replica) == (JobState.QUEUED, "worker-0")


def test_who_has_no_peers_suffers_no_effect_of_theirs(house: House) -> None:
    fails(house, running(house), code=1, sign="CONNECTION_REFUSED")
    assert (house.job().state, diagnosis(house).code) == (JobState.FAILED, "CONNECTION_REFUSED")


def test_those_that_were_stopped_explain_nothing(house: House) -> None:
    attempt = running(house, workers=2)
    house.clock.advance(1)
    fails(house, attempt, "worker-1", code=1, sign="PEER_GONE")
    assert diagnosis(house).replica == "worker-1", "the others ended because they were told to"


def test_a_lost_peer_explains_who_could_not_reach_it(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, FAILED, "chief-0", exit_code=1, sign="PEER_GONE")
    house.engine.set(attempt, LOST, "worker-0")
    house.tick()
    assert (diagnosis(house).code, diagnosis(house).replica) == ("REPLICA_LOST", "worker-0")


def test_installing_on_a_full_disk_is_tried_on_another_node(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4")
    fails(house, running(house), code=None, sign="DISK_FULL")
    assert house.job().state is JobState.QUEUED
    fails(house, started(house, 2), code=None, sign="INSTALL")
    assert house.job().state is JobState.FAILED


@pytest.mark.parametrize("code", [1, 2, 6, 11, 126, 127, 134, 137, 139, 143, 255])
def test_where_no_sign_speaks_the_exit_code_decides(house: House, code: int) -> None:
    fails(house, running(house), code=code)
    assert (diagnosis(house).again is Again.NEVER) == (exit_class(code) == PERMANENT)
    assert diagnosis(house).code == of_exit_code(code)


def test_every_exit_code_means_something() -> None:
    assert {of_exit_code(code) for code in range(1, 256)} <= FAILURES.keys()


def test_a_sign_that_nobody_knows_says_nothing(house: House) -> None:
    fails(house, running(house), code=3, sign="FROM_THE_FUTURE")
    assert (diagnosis(house).code, house.job().state) == ("ERROR", JobState.FAILED)


def decided(house: House, attempt: str = "p/j.1") -> str:
    """What was decided after an attempt, in words."""
    return decision(house.job(), house.store.attempt(attempt), diagnosis(house, attempt))


def test_what_was_decided_is_told(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4")
    fails(house, running(house, gpus=4), sign="NO_SPACE")
    blamed = diagnosis(house).node
    assert decided(house) == f"it is tried again, if possible on another node than {blamed}"
    waits = house.job().waits
    assert waits is not None and f"not on {blamed} if it can be elsewhere" in waits.text
    second = started(house, 2)
    assert decided(house) == f"it was tried again, if possible on another node than {blamed}"
    fails(house, second, sign="NO_SPACE")
    assert decided(house, second) == "not tried again: it failed so before, on another node"


def test_why_it_is_not_tried_again_is_told(tmp_path: Path) -> None:
    once = a_house(tmp_path)
    fails(once, running(once), code=1)
    assert decided(once) == "not tried again: the same would happen again"
    alone = a_house(tmp_path)
    fails(alone, running(alone, gpus=1), code=1, sign="GPU_ECC")
    assert decided(alone) == "not tried again: there is no other node that could hold it"
    often = a_house(tmp_path)
    fails(often, running(often, retry=Retry(whole_job=1)), code=139)
    fails(often, started(often, 2), code=139)
    assert decided(often, "p/j.2") == "not tried again: it was tried 2 times"


def test_who_is_cancelled_is_told_so(house: House) -> None:
    running(house)
    house.commands.cancel("p/j", owner="ada")
    house.tick()
    fails(house, "p/j.1", code=143)
    assert (diagnosis(house).code, diagnosis(house).again) == ("CANCELLED", Again.NEVER)


def test_every_cause_that_is_no_success_has_a_row() -> None:
    by_replicas = {Cause.REPLICA_FAILED, Cause.REPLICA_CRASHED, Cause.LAUNCH_FAILED}
    assert {str(c) for c in Cause if FATE[c] is not Fate.SUCCEED and c not in by_replicas} <= FAILURES.keys()


def test_the_tables_agree() -> None:
    assert AGAIN.keys() <= FAILURES.keys()
    hardware = {code for code, row in FAILURES.items() if row.blame is Blame.HARDWARE}
    assert hardware and all(is_infra(code) and AGAIN[code] != NEVER for code in hardware)
    assert not any(is_infra(code) for code in (*EFFECTS, "CUDA_OOM", "NO_SPACE", "", "FROM_THE_FUTURE"))
    assert is_infra("DISK_FULL") and is_infra("DRIVER_MISMATCH")
    for sign in SIGNATURES:
        assert sign.again == AGAIN[sign.code], "one code, one word about trying again"
        assert sign.again != NEVER or FAILURES[sign.code].blame is Blame.PROGRAM, sign.code


QUIET, HELD, GOING = Standing.QUIET, Standing.HELD, Standing.GOING


def stands(house: House, attempt: str, standing: Standing, *replicas: str, **more: Any) -> None:
    """Replicas that are UP get on so."""
    house.engine.set(attempt, UP, *replicas, standing=standing, **more)
    house.tick()


def test_a_job_hangs_when_all_of_it_stands_still(house: House) -> None:
    attempt = running(house, workers=1, ps=1)
    stands(house, attempt, QUIET, "ps-0", "worker-0")
    assert house.store.attempt(attempt).state is AttemptState.RUNNING, "the chief goes on"
    stands(house, attempt, GOING, "worker-0")
    stands(house, attempt, QUIET, "chief-0")
    assert house.store.attempt(attempt).state is AttemptState.RUNNING, "the worker goes on again"
    house.clock.advance(5)
    stands(house, attempt, QUIET, "worker-0")
    assert house.store.attempt(attempt).cause is Cause.HUNG


def test_one_that_is_done_need_not_move(house: House) -> None:
    attempt = running(house, workers=1)
    house.engine.set(attempt, ReplicaState.SUCCEEDED, "worker-0")
    stands(house, attempt, QUIET, "chief-0", evidence="no output for 60 s")
    assert house.store.attempt(attempt).cause is Cause.HUNG
    assert house.store.attempt(attempt).detail == "The replica master 0 hung: no output for 60 s."


def test_what_hangs_is_tried_once_more_elsewhere_and_then_has_failed(tmp_path: Path) -> None:
    house = a_house(tmp_path, "n0:4 n1:4 n2:4")
    for number in (1, 2):
        stands(house, started(house, number) if number > 1 else running(house, gpus=4), QUIET)
        house.clock.advance(0.5)
        house.engine.gone(f"p/j.{number}")
        house.tick()
        assert house.job().state is (JobState.QUEUED if number == 1 else JobState.FAILED)
    first, second = (house.store.attempt(f"p/j.{n}").placements[0].node for n in (1, 2))
    assert first != second
    assert diagnosis(house, "p/j.2").code == "HUNG"
    assert decided(house, "p/j.2") == "not tried again: it hung before"


def test_where_hanging_is_no_matter_nothing_follows(house: House) -> None:
    attempt = running(house, limits=Limits(hang_seconds=0))
    stands(house, attempt, QUIET)
    assert house.store.attempt(attempt).state is AttemptState.RUNNING


def held_job(house: House, **more: Any) -> str:
    """A job of a chief and a worker; the worker has failed, and its place is held."""
    attempt = running(house, workers=1, limits=Limits(hold_seconds=600))
    stands(house, attempt, HELD, "worker-0", exit_code=3, **more)
    return attempt


def test_a_held_place_keeps_the_job_running(house: House) -> None:
    attempt = held_job(house)
    house.tick(seconds=500)
    assert house.store.attempt(attempt).state is AttemptState.RUNNING
    stands(house, attempt, QUIET, "chief-0")
    assert house.store.attempt(attempt).state is AttemptState.RUNNING, "the chief waits for the one that failed"


def test_released_it_ends_as_its_program_did(house: House) -> None:
    attempt = held_job(house, sign="MISSING_MODULE", evidence="No module named 'x'")
    house.commands.release("p/j", owner="ada")
    house.tick()
    assert house.store.attempt(attempt).cause is Cause.REPLICA_FAILED
    house.engine.set(
        attempt, FAILED, "worker-0", exit_code=3, standing=HELD, sign="MISSING_MODULE", evidence="No module"
    )
    house.tick(seconds=1)
    fails(house, attempt, "chief-0", code=143)
    assert house.job().state is JobState.FAILED
    assert (diagnosis(house).code, diagnosis(house).replica) == ("MISSING_MODULE", "worker-0")


def test_cancelled_while_it_is_held_it_has_failed_all_the_same(house: House) -> None:
    attempt = held_job(house)
    house.commands.cancel("p/j", owner="ada")
    house.tick(seconds=1)
    house.engine.set(attempt, FAILED, "worker-0", exit_code=3, standing=HELD)
    fails(house, attempt, "chief-0", code=143)
    assert (house.job().state, diagnosis(house).replica) == (JobState.FAILED, "worker-0")
    assert "The replica worker 0 exited with a non-zero status of 3." in house.job().message


def test_of_two_that_are_held_the_first_failure_explains_the_other(house: House) -> None:
    attempt = held_job(house)
    house.clock.advance(5)
    stands(house, attempt, HELD, "chief-0", exit_code=4)
    house.clock.advance(600)
    house.engine.set(attempt, FAILED, exit_code=9, standing=HELD)
    house.tick()
    assert diagnosis(house).replica == "worker-0"


def test_nothing_is_released_where_nothing_is_held(house: House) -> None:
    running(house)
    with pytest.raises(Conflict, match="no place of p/j is kept"):
        house.commands.release("p/j", owner="ada")
