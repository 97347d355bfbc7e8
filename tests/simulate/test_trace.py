"""Traces: their windows, and files of any format or of none."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from stoker.core.errors import BadSpec, NotFound
from stoker.registry import MEMBERS
from stoker.simulate.trace import Trace, TraceJob, read_trace
from tests.simulate.real_traces import FOLDER, PHILLY, REAL
from tests.simulate.traces import samples
from tests.simulate.traces.samples import SAMPLES

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def a_trace(*submitted_at: float, time_zero: str = "") -> Trace:
    """A trace with jobs of one GPU and one minute at these moments."""
    jobs = [
        TraceJob(name=f"j{n}", submitted_at=at, run_seconds=60, gpus_milli=1000) for n, at in enumerate(submitted_at)
    ]
    return Trace(name="t", jobs=tuple(jobs), time_zero=time_zero)


def test_every_format_has_a_sample_and_a_contract() -> None:
    folder = Path(samples.__file__).parent
    assert set(SAMPLES) == set(MEMBERS["traces"])
    assert {path.stem.removeprefix("test_").replace("_", "-") for path in folder.glob("test_*.py")} == set(SAMPLES)


def test_a_window_holds_its_start_and_not_its_end() -> None:
    window = a_trace(0, 10, 19.5, 20).window(10, 20)
    assert [(job.name, job.submitted_at) for job in window.jobs] == [("j1", 0), ("j2", 9.5)]
    assert window.dropped == {"submitted outside the window": 2} and window.time_zero == "10 s of t"
    assert window.window(0, 5).dropped == {"submitted outside the window": 3}


def test_a_window_of_a_dated_trace_moves_its_zero() -> None:
    trace = a_trace(0, 3600, time_zero="2017-10-01 23:30:00")
    assert trace.window(1800, 7200).time_zero == "2017-10-02 00:00:00"
    assert [job.submitted_at for job in trace.days(date(2017, 10, 2), date(2017, 10, 2)).jobs] == [1800]
    assert trace.days(date(2018, 1, 1), date(2018, 1, 1)).jobs == ()


def test_days_go_by_the_zone_of_the_trace() -> None:
    trace = a_trace(0, 3600, time_zero="2023-03-01 23:18:22+08:00")
    assert [job.name for job in trace.days(date(2023, 3, 2), date(2023, 3, 2)).jobs] == ["j1"]


def test_a_trace_without_a_date_has_no_days() -> None:
    with pytest.raises(BadSpec, match="says no date") as caught:
        a_trace(0).days(date(2017, 10, 2), date(2017, 10, 2))
    assert "in seconds" in caught.value.fix


def test_an_unknown_format_is_told_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="no trace 'swf'; there are acme, chronus"):
        read_trace("x.csv", "swf")


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFound, match=r"no file .*gone\.csv"):
        read_trace("/nowhere/gone.csv")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b\n1,2\n", "it begins with 'a,b'$"),
        ("timestamp,duration,gpus,cluster\n", "nearest is philly, which also needs num_gpus"),
        ("{}", "it begins with '{}'"),
    ],
)
def test_a_file_of_no_known_format_is_told_with_the_formats(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(BadSpec, match=what) as caught:
        read_trace(path)
    assert all(name in caught.value.fix for name in MEMBERS["traces"])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04\x00", "a zip archive"),
        (b"x" * 257 + b"ustar\0", "a tar archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a Git LFS pointer"),
        (b"\xff\xfeJ\0o\0", "UTF-16"),
        (b"\x00\x01\x02", "binary"),
        (b"a\nb\x00", "x.csv:2: is binary"),
        (b"", "is empty"),
        (b"\x1f\x8b\x08\x00", "ends in the middle of its gzip data"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 40, "gzip"),
    ],
)
def test_what_is_no_text_is_told_what_it_is(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(BadSpec, match=what) as caught:
        read_trace(path)
    assert caught.value.fix


def test_bytes_that_are_not_utf8_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(f"{HEADER}\n2017-10-02 00:00:00,1,1,1,K".encode() + "ö".encode("latin-1") + b"ln\n")
    with pytest.raises(BadSpec, match=r"x\.csv:2: byte 0xf6 is not UTF-8"):
        read_trace(path)


def test_a_folder_with_several_traces_wants_one_named(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(samples.PHILLY)
    with pytest.raises(BadSpec, match=r"holds 2 traces: a\.csv, b\.csv"):
        read_trace(tmp_path)


def test_a_folder_without_a_trace_says_what_could_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "data.zip").write_bytes(b"PK\x03\x04\x00")
    with pytest.raises(BadSpec, match=r"no file in it is a trace .*data\.zip: is a zip archive"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (["2017-10-02 00:00:00,36000000,1,1,c"] * 3, "half of the jobs ran for more than 417 days"),
        (["1971-10-02 00:00:00,36,1,1,c", "2170-10-02 00:00:00,36,1,1,c"], "the submissions span 199 years"),
        (["2017-10-02 00:00:00,36,1,1,c"] * 2 + ["2017-10-02 00:00:00,1e11,1,1,c"], "job 000003 ran for 3,169 years"),
    ],
)
def test_times_in_another_unit_are_refused(tmp_path: Path, rows: list[str], what: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join([HEADER, *rows]))
    with pytest.raises(BadSpec, match=f"{what}: its times are not seconds") as caught:
        read_trace(path)
    assert "divide them by 1000" in caught.value.fix


def test_a_month_without_a_submission_is_kept_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        f"{HEADER}\n2017-01-01 00:00:00,1,1,1,c\n2017-01-31 00:00:00,1,1,1,c\n2017-03-12 00:00:00,1,1,1,c\n"
    )
    assert read_trace(path).notes == ("no submission for 40 days from day 30 on",)


def test_a_trace_in_which_nothing_is_left_says_why(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{HEADER}\n2017-01-01 00:00:00,1,0,1,c\n")
    with pytest.raises(BadSpec, match=r"has no job to replay \(1 asked for no GPU\)"):
        read_trace(path)


@REAL
def test_the_window_of_the_reference_has_as_many_jobs() -> None:
    trace = read_trace(PHILLY)
    window = trace.days(date(2017, 10, 2), date(2017, 11, 5))
    assert (len(trace.jobs), len(window.jobs), window.time_zero) == (55_803, 49_875, "2017-10-02 00:00:00")
    assert sum(job.run_seconds * job.gpus_milli for job in trace.jobs) / 3.6e6 == pytest.approx(691_624, abs=1)


@REAL
def test_public_files_are_read() -> None:
    files = [
        *("chronus/trace_job_Philly_SLO", "muri/trace1", "muri/trace3", "muri/trace1_pr", "muri/trace3_pr"),
        *("openb/openb_pod_list_default", "openb/openb_pod_list_gpuspec33", "openb/openb_pod_list_multigpu40"),
    ]
    found = {name.partition("/")[2]: len(read_trace(FOLDER / f"{name}.csv.gz").jobs) for name in files}
    assert found["openb_pod_list_default"] == 8_152 and found["openb_pod_list_multigpu40"] == 8_746
    assert (found["trace1"], found["trace3"], found["trace_job_Philly_SLO"]) == (1_494, 992, 30_940 - 205)
    assert sum(node.gpus for node in read_trace(FOLDER / "openb").nodes) == 6_212
    assert [len(read_trace(path).jobs) for path in sorted(FOLDER.glob("shockwave/*.trace.gz"))] == [120, 220]
