"""The ledger of a job: every second is one of something, and which, is told by hand-written lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.changes import Note
from stoker.core.job import Attempt, Placement
from stoker.core.states import AttemptState, Cause, ReplicaState, Standing
from stoker.insight.goodput import Phase, Taken, goodput, ledger, total
from stoker.insight.replica_lives import Life, lives_of
from stoker.insight.training_steps import Window

NOW = 1000.0


def attempt(
    number: int = 1, placed: float = 0.0, ended: float | None = 100.0, cause: Cause = Cause.COMPLETED
) -> Attempt:
    is_over = ended is not None
    return Attempt(
        id=f"p/j.{number}",
        job="p/j",
        number=number,
        engine="local",
        placements=(Placement(role="worker", index=0, node="n", devices=("GPU-0",)),),
        placed_at=placed,
        replicas=(),
        state=AttemptState.ENDED if is_over else AttemptState.RUNNING,
        usd_per_hour=36.0,
        cause=cause if is_over else None,
        stopping_at=ended - 2.0 if is_over else None,
        ended_at=ended,
    )


def life(ready: float | None = 4.0, up: float | None = 6.0, over: float | None = 97.0) -> Life:
    return Life(node="n", ready_at=ready, up_at=up, over_at=over)


def window(at: float, step: int, steps: int, seconds: float, **parts: float) -> Window:
    told = {"waited": None, "together": None, "longest": 0.0, "examples": 0, **parts}
    return Window(at=at, step=step, steps=steps, seconds=seconds, **told)  # type: ignore[arg-type]


STEPS = (
    window(10.0, 1, 1, 3.0),
    window(30.0, 21, 20, 20.0, waited=5.0, together=2.0),
    window(60.0, 41, 20, 20.0, aside=10.0, saving=3.0),
    window(90.0, 61, 20, 26.0),  # the last four seconds came after its last step
)


def taken(
    found: Attempt, windows: Sequence[Window] = STEPS, its: Life | None = None, resumed: tuple[float, int] | None = None
) -> Taken:
    return Taken(
        attempt=found,
        lives={"worker-0": its or life()},
        windows={"worker-0": windows},
        resumed=[resumed] if resumed else [],
        saves=1,
        devices={"worker-0": ("NVIDIA_TESLA_T4", 2.0)},
    )


def seconds(*found: Taken, goes_on: bool = False, is_resumable: bool = True) -> list[dict[str, float]]:
    made = ledger(found, NOW, goes_on=goes_on, is_resumable=is_resumable)
    return [{str(phase): s for phase, s in entry.seconds.items() if s} for entry in made.entries]


def test_every_second_of_a_plain_job_is_one_of_something() -> None:
    (found,) = seconds(taken(attempt()))
    assert found == pytest.approx(
        {
            "starting": 4.0 + 4.0,  # until it was ready, and from its start to the end of the first step
            "gang": 2.0,
            "productive": 13.0 + 20.0 + 26.0,
            "input": 5.0,
            "communication": 2.0,
            "checkpoint": 3.0,
            "evaluation": 7.0,
            "stopping": 4.0 + 7.0 + 2.0,  # after the last step, until the program ended, and until its place was free
            "idle": 1.0,  # it had ended, and the gang stopped a second later
        }
    )


def test_steps_that_are_done_again_are_lost() -> None:
    first = attempt(1, 0.0, 100.0, Cause.PREEMPTED)
    again = attempt(2, 200.0, 300.0)
    windows = [replace(one, at=one.at + 200.0) for one in STEPS]
    resumed = taken(again, windows, life(204.0, 206.0, 297.0), (209.0, 31))
    made = ledger([taken(first), resumed], NOW, goes_on=False, is_resumable=True)
    before, after = made.entries
    # Of steps 22 to 41 half are done again, and all later ones, with what came until it was stopped.
    assert before.seconds[Phase.LOST] == pytest.approx(52.0) and before.fault_seconds == pytest.approx(52.0)
    assert before.seconds[Phase.CHECKPOINT] == pytest.approx(1.5)
    assert after.seconds[Phase.LOST] == 0.0 and after.fault_seconds == 0.0 and made.knows_lost


def test_who_loses_by_its_own_fault_is_not_excused() -> None:
    first = attempt(1, 0.0, 100.0, Cause.REPLICA_CRASHED)
    again = taken(
        attempt(2, 200.0, 300.0), [replace(one, at=one.at + 200.0) for one in STEPS], life(204.0, 206.0, 297.0)
    )
    made = ledger([taken(first), again], NOW, goes_on=False, is_resumable=True)
    assert made.entries[0].fault_seconds == 0.0
    assert made.entries[0].seconds[Phase.LOST] == pytest.approx(76.0 + 11.0), (
        "it began anew: all but its first step is lost"
    )


def test_a_restart_in_place_loses_steps_within_an_attempt() -> None:
    windows = [*STEPS[:2], window(40.0, 1, 1, 2.0), window(60.0, 11, 10, 20.0)]
    (found,) = seconds(replace(taken(attempt(), windows), resumed=[(39.0, 11)]))
    assert found["lost"] == pytest.approx(10.0), "steps 12 to 21 of the first run"
    assert found["starting"] == pytest.approx(8.0 + 10.0)


def test_of_a_program_with_checkpoints_of_its_own_it_is_not_known_what_was_lost() -> None:
    parts = [replace(taken(attempt(n, 200.0 * n, 200.0 * n + 100)), saves=0) for n in (1, 2)]
    assert not ledger(parts, NOW, goes_on=False, is_resumable=True).knows_lost
    assert ledger(parts, NOW, goes_on=False, is_resumable=False).knows_lost


def test_without_steps_it_is_unknown_not_guessed() -> None:
    (found,) = seconds(taken(attempt(), ()))
    assert found == pytest.approx({"starting": 4.0, "gang": 2.0, "unknown": 91.0, "idle": 1.0, "stopping": 2.0})
    assert goodput({Phase.UNKNOWN: 3.0}) is None and goodput({}) is None
    assert goodput({Phase.PRODUCTIVE: 3.0, Phase.UNKNOWN: 1.0}) == 0.75


def test_one_that_goes_on() -> None:
    (found,) = seconds(taken(attempt(ended=None), STEPS, life(over=None)), goes_on=True)
    assert found["unknown"] == pytest.approx(NOW - 90.0 + 4.0) and sum(found.values()) == pytest.approx(NOW)
    assert "stopping" not in found


def test_a_hang_is_idle_time() -> None:
    (found,) = seconds(taken(attempt(ended=500.0, cause=Cause.HUNG), STEPS, life(over=None)))
    assert found["idle"] == pytest.approx(498.0 - 90.0)
    quiet = Life(node="n", ready_at=4.0, up_at=6.0, over_at=97.0, quiet=[(70.0, 85.0)])
    (found,) = seconds(taken(attempt(), STEPS, quiet))
    assert found["idle"] == pytest.approx(15.0 + 1.0), "it went on by itself"


def test_one_that_never_ran() -> None:
    failed = attempt(ended=50.0, cause=Cause.LAUNCH_FAILED)
    assert seconds(taken(failed, (), life(None, None, None))) == [{"starting": 48.0, "stopping": 2.0}]


def test_workers_of_parameter_servers_are_told_by_who_steps() -> None:
    found = replace(
        taken(attempt()),
        lives={"worker-0": life(), "worker-1": life()},
        devices={"worker-0": ("", 0.0), "worker-1": ("NVIDIA_TESLA_T4", 1.0)},
        follows="worker-0",
    )
    made = ledger([found], NOW, goes_on=False, is_resumable=False)
    assert made.entries[0].seconds == made.entries[1].seconds and made.weight == "accelerator"
    assert total(made.entries, made.weight)[Phase.PRODUCTIVE] == pytest.approx(59.0), "the one without a GPU costs none"


def test_what_it_costs_adds_up() -> None:
    made = ledger([taken(attempt())], NOW, goes_on=False, is_resumable=False)
    assert sum(entry.usd or 0.0 for entry in made.entries) == pytest.approx(1.0)


def test_lives_are_read_from_the_story() -> None:
    def note(at: float, seen: ReplicaState, **more: object) -> Note:
        return Note(attempt="p/j.1", role="worker", index=0, seen=seen, at=at, **more)  # type: ignore[arg-type]

    found = lives_of(
        [attempt()],
        [
            note(1.0, ReplicaState.STARTING),
            note(3.0, ReplicaState.STARTING, addresses=("h:1",)),
            note(5.0, ReplicaState.UP, addresses=("h:1",)),
            note(40.0, ReplicaState.UP, addresses=("h:1",), standing=Standing.QUIET),
            note(50.0, ReplicaState.UP, addresses=("h:1",)),
            note(60.0, ReplicaState.UP, addresses=("h:1",), standing=Standing.QUIET),
            note(90.0, ReplicaState.LOST, addresses=("h:1",)),
            replace(note(1.0, ReplicaState.UP), attempt="p/other.1"),
        ],
    )["p/j.1"]["worker-0"]
    assert (found.ready_at, found.up_at, found.over_at) == (3.0, 5.0, 90.0)
    assert found.quiet == [(40.0, 50.0), (60.0, None)] and found.is_quiet
    assert found.quiet_between(0.0, 45.0) == 5.0


moments = st.none() | st.floats(-50.0, 1500.0)


@st.composite
def odd_windows(draw: st.DrawFn) -> list[Window]:
    """Whatever a program may tell, with any clock."""
    made, step = [], 0
    for _ in range(draw(st.integers(0, 6))):
        steps = draw(st.integers(0, 30))
        step = steps if draw(st.booleans()) else step + steps
        parts = {name: draw(st.floats(0.0, 500.0)) for name in ("waited", "together", "aside", "saving")}
        made.append(window(draw(st.floats(-50.0, 1500.0)), step, steps, draw(st.floats(0.0, 500.0)), **parts))
    return made


@st.composite
def odd_jobs(draw: st.DrawFn) -> list[Taken]:
    made = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        placed = 300.0 * number
        goes_on = draw(st.booleans())
        ended = None if goes_on else placed + draw(st.floats(0.0, 299.0))
        found = attempt(number, placed, ended, draw(st.sampled_from(Cause)))
        if ended is not None:
            found = replace(found, stopping_at=draw(st.floats(placed, ended)))
        its = life(draw(moments), draw(moments), draw(moments))
        its.quiet = [(draw(st.floats(0.0, 1000.0)), draw(moments))] if draw(st.booleans()) else []
        resumed = (draw(st.floats(0.0, 1000.0)), draw(st.integers(0, 99))) if draw(st.booleans()) else None
        made.append(taken(found, draw(odd_windows()), its, resumed))
    return made


@given(odd_jobs(), st.booleans())
def test_it_adds_up_to_the_time_that_was_held(jobs: list[Taken], is_resumable: bool) -> None:
    """Within a thousandth, whatever programs and clocks tell; no phase is negative."""
    made = ledger(jobs, NOW, goes_on=True, is_resumable=is_resumable)
    for entry in made.entries:
        held = (NOW if entry.ended_at is None else entry.ended_at) - entry.began_at
        assert all(s >= 0.0 for s in entry.seconds.values()), entry
        assert entry.held_seconds == pytest.approx(max(0.0, held), rel=1e-3, abs=1e-6)
        assert 0.0 <= entry.fault_seconds <= entry.seconds[Phase.LOST] + 1e-9
