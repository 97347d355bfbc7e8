"""Muri-compat mode: each quirk on a trace small enough to work out by hand, then the published table, digit by digit."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker.core.errors import BadSpec
from stoker.simulate.muri import SLOWDOWN, MuriCompletion, MuriJob, MuriResult, read_muri, replay
from stoker.simulate.muri_rules import (
    LeastAttained,
    ShortestFirst,
    Work,
    fit_by_count,
    fit_on_nodes,
    queue_of,
    rank_by_remaining_service,
    rank_by_remaining_time,
    restart_seconds,
    take,
)

TRACES = Path(os.environ.get("STOKER_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
PUBLISHED = TRACES / "published" / "muri_64gpu.csv.gz"
NAMES = {"SRTF": "srtf", "SRSF": "srsf", "Tiresias_L": "tiresias-l"}
POLICIES = list(NAMES.values())


def a_job(name: str, *, runs: int, gpus: int = 1, at: float = 0.0) -> MuriJob:
    """A job that runs for so many seconds, with a restart of 10 s as of every program that Muri did not measure."""
    return MuriJob(
        id=name,
        model_name="unheard-of",
        gpus=gpus,
        submitted_at_seconds=at,
        iterations=runs,
        iteration_milliseconds=1000 / SLOWDOWN,
    )


def ends(*jobs: MuriJob, policy: str, nodes: int = 1, gpus: int = 8) -> dict[str, float]:
    """When each job ends on `nodes` of `gpus`."""
    result = replay(jobs, policy=policy, nodes=nodes, gpus_per_node=gpus)
    return {done.job_id: round(done.ended_at_seconds, 6) for done in result.completions}


def some_work(*gangs: int) -> list[Work]:
    """Work of gangs of these sizes, in order of submission."""
    return [
        Work(index=n, gpus=gpus, iteration_seconds=1.0, restart_seconds=10, remaining_iterations=100.0)
        for n, gpus in enumerate(gangs)
    ]


def gangs(chosen: Sequence[Work]) -> list[int]:
    return [work.gpus for work in chosen]


@pytest.mark.parametrize("policy", POLICIES)
def test_alone_a_job_takes_its_iterations_and_the_slowdown(policy: str) -> None:
    job = MuriJob(
        id="a", model_name="a2c", gpus=2, submitted_at_seconds=7.0, iterations=1000, iteration_milliseconds=200
    )
    (done,) = replay([job], policy=policy).completions
    assert done.ended_at_seconds == pytest.approx(7 + 1000 * 0.2 * 1.015)
    assert done.jct_seconds == pytest.approx(203)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_charges_a_restart_to_all_who_run(policy: str) -> None:
    """`b` disturbs nobody, yet `a` pays 10 s for its coming, and `b` 10 s for the end of `a`."""
    assert ends(a_job("a", runs=100), a_job("b", runs=100, at=50.0), policy=policy) == {"a": 110.0, "b": 160.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_charge_takes_no_more_than_the_time_that_passed(policy: str) -> None:
    assert ends(a_job("a", runs=100), a_job("b", runs=5, at=3.0), policy=policy) == {"b": 8.0, "a": 108.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_end_at_a_submission_is_one_event_with_it(policy: str) -> None:
    first = a_job("a", runs=100)
    at = replay([first], policy=policy).makespan_seconds
    assert ends(first, a_job("b", runs=200), a_job("c", runs=50, at=at), policy=policy) == {
        "a": 100.0,
        "c": 150.0,
        "b": 220.0,  # charged at 100, once, and at 150
    }


def test_srtf_looks_at_time_and_srsf_at_gpu_seconds() -> None:
    jobs = a_job("wide", runs=20, gpus=8), a_job("narrow", runs=50)
    assert ends(*jobs, policy="srtf") == {"wide": 20.0, "narrow": 70.0}
    assert ends(*jobs, policy="srsf") == {"narrow": 50.0, "wide": 70.0}
    assert rank_by_remaining_time(20.0, 8) < rank_by_remaining_time(50.0, 1)
    assert rank_by_remaining_service(20.0, 8) > rank_by_remaining_service(50.0, 1)


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
def test_a_shorter_job_preempts_by_what_remains(policy: str) -> None:
    """At 60 `long` has 100 - (60 - 10) = 50 left; `equal` does not pass it, `short` does."""
    long, short = a_job("long", runs=100), a_job("short", runs=40, at=60.0)
    assert ends(long, short, policy=policy, gpus=1) == {"short": 100.0, "long": 150.0}
    equal = a_job("equal", runs=51, at=60.0)
    assert ends(long, equal, policy=policy, gpus=1) == {"long": 110.0, "equal": 161.0}


def test_who_does_not_fit_is_passed_over() -> None:
    jobs = a_job("a", runs=100, gpus=2), a_job("b", runs=200, gpus=2), a_job("c", runs=300)
    assert ends(*jobs, policy="srtf", gpus=3) == {"a": 100.0, "b": 300.0, "c": 320.0}  # c is charged at 100 and 300
    assert ends(*jobs, policy="tiresias-l", gpus=3) == {"a": 100.0, "b": 300.0, "c": 320.0}


@pytest.mark.parametrize(
    ("free", "gpus", "left"),
    [
        ([4, 4, 4], 1, [3, 4, 4]),
        ([1, 2, 4], 2, [1, 0, 4]),
        ([3, 3, 3], 4, None),
        ([2, 4, 4], 4, [2, 0, 4]),
        ([3, 4, 4], 8, [3, 0, 0]),
        ([3, 3, 4], 8, None),
        ([4, 4, 4], 6, [0, 2, 4]),
        ([1, 2, 4], 6, [1, 0, 0]),
        ([1, 1, 4], 6, None),
    ],
)
def test_a_gang_goes_on_one_node_or_on_whole_ones_and_a_rest(free: list[int], gpus: int, left: list[int]) -> None:
    before = list(free)
    assert take(free, gpus, 4) is (left is not None)
    assert free == (before if left is None else left)


def test_tiresias_counts_gpus_where_the_others_place_gangs() -> None:
    assert gangs(fit_on_nodes(some_work(3, 3, 2, 1), 2, 4)) == [3, 3, 1]
    assert gangs(fit_by_count(some_work(3, 3, 2, 1), 8)) == [3, 3, 2]
    jobs = a_job("a", runs=100, gpus=3), a_job("b", runs=100, gpus=3), a_job("c", runs=300, gpus=2)
    assert ends(*jobs, policy="srtf", nodes=2, gpus=4) == {"a": 100.0, "b": 100.0, "c": 400.0}
    assert ends(*jobs, policy="tiresias-l", nodes=2, gpus=4) == {"a": 100.0, "b": 100.0, "c": 310.0}


def test_las_keeps_who_came_first_until_its_service_reaches_a_limit() -> None:
    """`a` is charged at 100, at 3250 (to the second queue, behind `b`) and at 7250 (to the third)."""
    jobs = a_job("a", runs=10_000), a_job("b", runs=50, at=100.0)
    assert ends(*jobs, policy="tiresias-l", gpus=1) == {"b": 3300.0, "a": 10_080.0}


def test_las_puts_a_newcomer_before_all_who_moved_down() -> None:
    jobs = a_job("a", runs=10_000), a_job("b", runs=50, at=5000.0)
    assert ends(*jobs, policy="tiresias-l", gpus=1) == {"b": 5050.0, "a": 10_080.0}  # charged at 3250, 5000 and 7250


def test_las_counts_gpu_seconds_and_rounds_a_turn_up_to_a_whole_second() -> None:
    jobs = a_job("a", runs=2000, gpus=3), a_job("b", runs=50, at=100.0)
    assert ends(*jobs, policy="tiresias-l", gpus=3)["b"] == 1084.0 + 50.0  # 3250 / 3 = 1083.3
    assert [queue_of(service) for service in (0.0, 3249.9, 3250.0, 7199.9, 7200.0, 1e9)] == [0, 0, 1, 1, 2, 2]


def test_las_leaves_who_was_passed_over_behind_who_was_chosen() -> None:
    """`c`, the last to come, runs beside `a`; when that ends, `b` has the earlier submission and waits on all the same."""
    jobs = a_job("a", runs=100), a_job("b", runs=50, gpus=2, at=1.0), a_job("c", runs=1000, at=2.0)
    assert ends(*jobs, policy="tiresias-l", gpus=2) == {"a": 102.0, "c": 1012.0, "b": 1062.0}


def test_las_moves_those_who_reach_a_limit_together_in_order_of_submission() -> None:
    line, work = LeastAttained(gpus=1), some_work(1, 1)
    for each in work:
        line.join(each)
        each.executed_seconds = 3250.0
    assert line.choose(work[::-1]) == work[:1]


def test_las_puts_who_moves_down_behind_all_in_its_new_queue() -> None:
    line, (moves, waits) = LeastAttained(gpus=1), some_work(1, 1)
    waits.queue, moves.executed_seconds = 1, 3250.0
    line.join(moves)
    line.join(waits)
    assert line.choose([moves]) == [waits]


def test_las_never_turns_at_the_same_instant_for_ever() -> None:
    """So close to a limit that the clock cannot tell: the source would stand still here."""
    line, (work,) = LeastAttained(gpus=1), some_work(1)
    work.executed_seconds = 3250 - 1e-10
    assert line.next_turn([work], 1e8) > 1e8


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("late", "first", "second"), [(0.005, 100.0, 99.995), (0.02, 100.02, 100.0)])
def test_submissions_too_close_to_tell_apart_join_with_the_first(
    policy: str, late: float, first: float, second: float
) -> None:
    """After four months 5 ms are one instant, measured from each one's own submission; 20 ms are two, and one charge."""
    jobs = [a_job("second", runs=100, at=1e7 + late), a_job("first", runs=100, at=1e7)]
    took = {done.job_id: done.jct_seconds for done in replay(jobs, policy=policy).completions}
    assert took == {"first": pytest.approx(first, abs=1e-6), "second": pytest.approx(second, abs=1e-6)}


def test_ends_too_close_to_tell_apart_are_one_for_the_shortest_and_not_for_las() -> None:
    first, second, third = work = some_work(1, 1, 1)
    first.remaining_iterations, second.remaining_iterations, third.remaining_iterations = 1e7 + 0.005, 1e7, 2e7
    near = ShortestFirst(rank_by_remaining_time, 1, 8).next_end(work, 0.0)
    assert (near.at_seconds, near.works) == (1e7 + 0.005, [first, second])  # the first in line says when
    exact = LeastAttained(gpus=8).next_end(work, 0.0)
    assert (exact.at_seconds, exact.works) == (1e7, [second])


def test_a_restart_costs_by_program_and_gang() -> None:
    assert [restart_seconds("a2c", gpus) for gpus in (1, 2, 4, 8, 16, 32)] == [38, 39, 39, 46, 46, 46]
    assert restart_seconds("unheard-of", 8) == 10
    assert (restart_seconds("vgg16", 3), restart_seconds("vgg16", 64)) == (8, 10)  # ours: the next larger size


def test_figures_are_counted_as_the_source_counts_them() -> None:
    result = MuriResult(
        completions=tuple(
            MuriCompletion(job_id=f"{n}", submitted_at_seconds=100.0, ended_at_seconds=101.0 + n) for n in range(200)
        )
    )
    assert result.avg_jct_seconds == 100.5
    assert result.makespan_seconds == 300.0  # from 0, though nobody came before 100
    assert result.p99_jct_seconds == 199.0


@pytest.mark.parametrize(
    ("job", "policy", "words"),
    [
        (a_job("a", runs=1, gpus=9), "srtf", "jobs.a.gpus: 9 asked, the cluster has 8"),
        (a_job("a", runs=1, gpus=0), "srtf", "jobs.a.gpus: 0 asked"),
        (a_job("a", runs=0), "srtf", "greater than 0"),
        (a_job("a", runs=1, at=float("nan")), "srtf", "finite"),
        (a_job("a", runs=1), "themis", "'themis' is none of srtf, srsf, tiresias-l"),
    ],
)
def test_what_could_not_be_run_is_refused(job: MuriJob, policy: str, words: str) -> None:
    with pytest.raises(BadSpec, match=words):
        replay([job], policy=policy, nodes=2, gpus_per_node=4)


def test_no_jobs_and_no_cluster_are_refused() -> None:
    with pytest.raises(BadSpec, match="there are none") as refused:
        replay([], policy="srtf", nodes=0)
    assert [violation.field for violation in refused.value.violations] == ["nodes", "jobs"]


HEAD = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time\n"
ROW = "7,4,1500,3000,gpt2,4,9,9,433\n"


def test_a_trace_is_read_plain_and_packed(tmp_path: Path) -> None:
    expected = MuriJob(
        id="7", model_name="gpt2", gpus=4, submitted_at_seconds=1.5, iterations=3000, iteration_milliseconds=433
    )
    plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    plain.write_text(HEAD + ROW)
    packed.write_bytes(gzip.compress((HEAD + ROW).encode()))
    assert read_muri(plain) == read_muri(packed) == [expected]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + ROW + ROW.replace("1500", "soon"), r"t\.csv:3: submit_time: 'soon' is not a whole number of 0 or more"),
        (HEAD + ROW.replace("4,1500", "0,1500"), r"t\.csv:2: num_gpu: '0' is not a whole number of 1 or more"),
        (HEAD + ROW.replace("3000", "9" * 5000), r"t\.csv:2: iterations: '999"),
        (HEAD + ROW.replace("gpt2", "g" * 200_000), r"t\.csv:2: field larger than field limit"),
        (HEAD + ROW.replace("433", "4.5"), r"t\.csv:2: iteration_time: '4.5'"),
        (HEAD + "7,4,1500\n", r"t\.csv:2: iterations: ''"),
        (ROW, r"t\.csv:1: no column job_id"),
        ("", r"t\.csv:1: no column job_id"),
        (HEAD, r"t\.csv:1: columns, but no jobs"),
        (b"\x1f\x8bnot gzip at all", r"t\.csv: cannot be read"),
        (b"\xff\xfe\xfd", r"t\.csv: cannot be read"),
        (None, r"t\.csv: cannot be read"),
    ],
)
def test_a_malformed_trace_is_refused_with_file_and_line(tmp_path: Path, text: str | bytes | None, words: str) -> None:
    path = tmp_path / "t.csv"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(BadSpec, match=words):
        read_muri(path)


@pytest.mark.skipif(not PUBLISHED.exists(), reason=f"no published table at {PUBLISHED}; STOKER_TRACES names the folder")
@pytest.mark.parametrize("trace", ["trace1", "trace1_pr", "trace3", "trace3_pr"])
@pytest.mark.parametrize("peer", NAMES)
def test_the_published_figures_come_out_to_every_digit(trace: str, peer: str) -> None:
    with gzip.open(PUBLISHED, "rt") as file:
        published = next(row for row in csv.DictReader(file) if (row["trace"], row["policy"]) == (trace, peer))
    result = replay(read_muri(TRACES / "muri" / f"{trace}.csv.gz"), policy=NAMES[peer])
    figures = {
        "avg_jct_s": result.avg_jct_seconds,
        "makespan_s": result.makespan_seconds,
        "p99_jct_s": result.p99_jct_seconds,
    }
    for name, figure in figures.items():
        decimals = len(published[name].partition(".")[2])
        assert f"{figure:.{decimals}f}" == published[name], name
