"""The saturation replay of openb: its rows, and the figures that it is known by."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.placement import HEADER, PLACERS, arrivals, main, replay, rows, specs_of, text
from stoker.simulate.cluster import nodes_of
from stoker.simulate.trace import Trace, TraceJob, TraceNode, read_trace
from tests.simulate.real_traces import FOLDER, REAL

PODS = tuple(
    TraceJob(
        name=f"pod-{n}", submitted_at=0, run_seconds=1, gpus_milli=milli, vcpus=2, accelerators=("T4",) * (milli == 460)
    )
    for n, milli in enumerate([0, 460, 540, 1000, 2000])
)
SMALL = Trace(name="small", jobs=PODS, nodes=(TraceNode(count=3, gpus=4, accelerator="T4", vcpus=64, memory_gb=64),))


@pytest.mark.parametrize("placer", PLACERS)
def test_a_small_replay_adds_up(placer: str) -> None:
    run = replay(SMALL, placer, 1)
    assert 60 <= run.at_100 <= run.at_130 <= 100 and run.without_gpus_at_100 == 100
    assert 0 <= run.useless_at_100 <= 100 - run.at_100
    assert replay(SMALL, placer, 1).at_130 == run.at_130


def test_every_pod_comes_once_before_copies_do() -> None:
    specs = specs_of(SMALL, nodes_of(SMALL.nodes))
    first = list(arrivals(specs, 7, 12_000))
    assert {id(spec) for spec in first[:5]} == {id(spec) for spec in specs} and len(first) > 5
    assert first == list(arrivals(specs, 7, 12_000)) != list(arrivals(specs, 8, 12_000))


def test_it_says_which_data_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    assert str(tmp_path / "openb" / "openb_pod_list_default.csv.gz") in shown.err


@REAL
def test_fgd_is_the_published_one_and_shadow_price_above_it() -> None:
    fgd, ours = rows(FOLDER, [42], ["default"], ["fgd", "shadow-price"])
    assert fgd.published_at_100 is not None and fgd.published_at_130 is not None
    assert round(fgd.at_100, 2) == 94.97 and abs(fgd.at_100 - fgd.published_at_100.mean) < 0.3  # one seed of many
    assert abs(fgd.at_130 - fgd.published_at_130.mean) < 0.3
    assert ours.gain is not None and ours.gain > 2 and 95.6 < ours.at_100 < ours.bound_at_100
    assert ours.at_130 > 96.0 and len(text(ours).split("|")) == len(HEADER.splitlines()[0].split("|"))


@REAL
def test_types_that_some_need_are_kept_for_them() -> None:
    trace = read_trace(FOLDER / "openb" / "openb_pod_list_gpuspec33.csv.gz")
    assert replay(trace, "shadow-price", 42).at_100 > 94.0
