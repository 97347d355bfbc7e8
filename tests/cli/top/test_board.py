"""What is shown of a site, at every width."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from stoker.cli.top.board import SORTS, Board, Screen, board, summary
from stoker.cli.top.recent import Recent
from tests.cli.top.overviews import STEPS, a_gpu, a_node, a_row, an_overview

EVIL = "\x1b]0;owned\x07\x1b[2Jtrain\n" + "長い名前" * 50


def shown(overview: dict[str, Any], width: int = 120, **more: Any) -> Board:
    recent = Recent()
    recent.take(overview)
    return board(Screen(overview=overview, recent=recent, **more), width)


def texts(found: Board) -> list[str]:
    return [line.text.rstrip() for line in (*found.head, *found.lines)]


def test_a_node_its_gpus_and_the_jobs() -> None:
    head, under, node, first, second, _, of_jobs, job = texts(
        shown(an_overview([a_gpu(0, job="j", busy=91), a_gpu(1, busy=0)], [a_row()]))
    )
    assert head.split()[:2] == ["NODE", "STATE"] and under.split()[:3] == ["GPU", "PRODUCT", "BUSY"]
    assert node.split()[:3] == ["box", "UP", "2/2"] or node.split()[:3] == ["box", "UP", "0/2"]
    for part in ("91 %", "1/80 GiB", "191/700 W", "40 °C", "j/chief-0"):
        assert part in first
    assert " - " in f"{second} " and of_jobs.startswith("JOB")
    assert job.split()[:8] == ["j", "ada", "RUNNING", "2", "min", "1200", "4.5", "25"] and "91 %" in job


def test_without_a_gpu_it_shows_the_machines() -> None:
    lines = texts(shown(an_overview()))
    assert lines[1].split()[:2] == ["box", "UP"] and lines[-1] == "no job holds a machine"
    assert not [line for line in lines if "GPU" in line]


def test_who_is_no_admin_sees_no_numbers_of_machines() -> None:
    lines = texts(shown(an_overview([a_gpu(job="j")], nodes=[a_node(gpus=1, values={})])))
    assert lines[0].split() == ["NODE", "STATE", "HELD"] and "j/chief-0" in lines[3]
    assert lines[-1] == "no job that you may see"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200, 300])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    gpus = [a_gpu(n, job=EVIL, product=EVIL, mig_profile="1g.10gb") for n in range(3)]
    overview = an_overview(gpus, [a_row(EVIL, owner=EVIL, project=EVIL, nodes=(EVIL,))], [a_node("box", gpus=3)])
    for about in ((), ("node", "box")):
        for sort in SORTS:
            for line in (found := shown(overview, width, about=about, sort=sort)).lines + found.head:
                assert cell_len(line.text) <= max(width, 24) and not set(line.text) & {"\x1b", "\n", "\x07"}
    assert all(
        cell_len(line.text) <= width or n for n, line in enumerate(summary(overview, EVIL[9:], "12:00:00", width))
    )


def test_at_80_columns_nothing_important_is_missing() -> None:
    lines = "\n".join(texts(shown(an_overview([a_gpu(job="resnet")], [a_row("resnet")]), 79)))
    for part in (
        "BUSY",
        "SM",
        "MEMORY",
        "POWER",
        "TEMP",
        "HELD BY",
        "resnet/chief-0",
        "STEPS/S",
        "DATA WAIT",
        "1/80 GiB",
    ):
        assert part in lines


def test_at_40_columns_the_least_is_there() -> None:
    lines = "\n".join(texts(shown(an_overview([a_gpu(job="resnet")], [a_row("resnet")]), 39)))
    assert "BUSY" in lines and "resnet/chi" in lines and "POWER" not in lines


@pytest.mark.parametrize(
    ("sort", "order"), [("busy", [1, 2, 0]), ("memory", [2, 1, 0]), ("power", [1, 2, 0]), ("temperature", [2, 1, 0])]
)
def test_gpus_are_sorted_by_a_number(sort: str, order: list[int]) -> None:
    gpus = [a_gpu(0, busy=1), a_gpu(1, busy=99), a_gpu(2, busy=50)]
    found = shown(an_overview(gpus), sort=sort).lines
    assert [line.about[1] for line in found[:3]] == [f"GPU-box-{n}" for n in order]
    assert found[0].text.split()[0] == "box", "the node is named where they do not stand below it"


def test_sorted_by_job_those_that_nobody_holds_come_last() -> None:
    gpus = [a_gpu(0), a_gpu(1, job="b"), a_gpu(2, job="a")]
    assert [line.about[1] for line in shown(an_overview(gpus), sort="job").lines[:3]] == [
        "GPU-box-2",
        "GPU-box-1",
        "GPU-box-0",
    ]


def test_one_job_alone() -> None:
    overview = an_overview([a_gpu(0, job="j"), a_gpu(1)], [a_row()], [a_node(gpus=2), a_node("other")])
    found = "\n".join(texts(shown(overview, about=("job", "p", "j"), steps=STEPS)))
    for part in (
        "of ada in p, for 2 min, 1 replica, 1 GPU",
        "on box",
        "steps/s",
        "loss",
        "0.5",
        "nan",
        "! chief-0 waits",
    ):
        assert part in found
    assert found.count("chief-0") == 2 and "other" not in found
    assert "looking how it trains" in "\n".join(texts(shown(overview, about=("job", "p", "j"))))
    nothing = {"replicas": [], "findings": []}
    assert "no step yet" in "\n".join(texts(shown(overview, about=("job", "p", "j"), steps=nothing)))


def test_a_job_that_has_ended_says_so() -> None:
    assert "gone holds no machine now: stoker why gone" in texts(shown(an_overview(), about=("job", "p", "gone")))


def test_one_node_alone() -> None:
    overview = an_overview([a_gpu(0), a_gpu(0, node="other")], [a_row("here"), a_row("there", nodes=("other",))])
    found = "\n".join(texts(shown(overview, about=("node", "other"))))
    assert "there" in found and "here" not in found.replace("there", "") and "box" not in found


def test_what_is_left_out_is_said() -> None:
    overview = an_overview()
    overview["counts"] |= {"nodes": 10_000, "jobs_running": 5}
    assert "and 9999 nodes more: stoker nodes list" in texts(shown(overview))


def test_a_fault_stands_in_the_place_of_a_number() -> None:
    (line,) = [
        t for t in texts(shown(an_overview([a_gpu(values={}, fault="RESET_REQUIRED")]))) if "RESET_REQUIRED" in t
    ]
    assert "%" not in line


def test_shares_of_a_gpu() -> None:
    holders = [{"project": "p", "job": f"j{n}", "replica": "chief-0"} for n in range(3)]
    assert "j0/chief-0 +2" in "\n".join(texts(shown(an_overview([a_gpu(holders=holders)]))))


def test_projects_are_named_where_there_are_several() -> None:
    overview = an_overview([a_gpu()], [a_row("a"), a_row("b", project="q")])
    assert "p/a" in "\n".join(texts(shown(overview))) and "q/b" in "\n".join(texts(shown(overview)))


def test_the_summary() -> None:
    overview = an_overview([a_gpu(0, job="j", busy=91), a_gpu(1, busy=0)], [a_row()])
    first, second = (line.text for line in summary(overview, "http://127.0.0.1:7077", "12:00:00", 64))
    assert (
        first.startswith("stoker top 0.1.0  http://127.0.0.1:7077 ")
        and first.endswith(" 12:00:00")
        and len(first) == 64
    )
    assert second == "jobs 1 running 0 waiting   GPUs 1 busy 1 held of 2   nodes 1"
    assert summary(overview, "", "", 40)[1].text == "jobs 1+0  GPUs 1 busy 1/2 held"
