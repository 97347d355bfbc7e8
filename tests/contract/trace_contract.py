"""What every reader of traces must do."""

from __future__ import annotations

import gzip
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import BadSpec
from stoker.registry import load
from stoker.simulate.reading.source import Source
from stoker.simulate.trace import Reader, Trace, read_trace
from tests.simulate.traces.samples import SAMPLES, Sample

ODD = (
    *(
        "",
        " ",
        "0",
        "-1",
        "-0.5",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e309",
        "1e300",
        "1e-300",
        "1_0",
        "x",
        "٣",
        '"',
        "'",
        "\\",
    ),
    *("None", "Unknown", "null", "9" * 400, "x" * 200_000, ",", "|", "\t", "\n", "{", "]", "1970-01-01 00:00:00"),
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59+14:00", "2017-13-45", "2020-02-02T02:02:02Z", "1e7", "99999999999"),
)


class TraceContract:
    """Subclass it and say the reader's `name`; its sample stands in tests/simulate/traces/samples.py."""

    name: str

    @property
    def sample(self) -> Sample:
        """A file without fault."""
        return SAMPLES[self.name]

    def reader(self) -> Reader:
        """The reader."""
        reader: Reader = load("traces", self.name)()
        return reader

    def read(self, text: str) -> Trace:
        """Its trace of a text, in a folder with nothing beside it."""
        return self.reader().read(Source(Path("/nowhere") / self.sample.file, text))

    def test_its_jobs_are_what_a_trace_promises(self) -> None:
        trace = self.read(self.sample.text)
        check(trace)
        assert len(trace.jobs) == self.sample.jobs and trace.source == self.sample.file

    def test_it_recognises_its_own_file_and_no_other(self) -> None:
        reader = self.reader()
        assert [name for name, s in SAMPLES.items() if reader.recognises(s.text, Path(s.file))] == [self.name]
        for text in ("\n", "hello", "{}", "[]", "a,b\n1,2\n", "\t" * 11, "|" * 5):
            assert not reader.recognises(text, Path("x.csv"))

    def test_a_file_is_read_without_its_format_being_named(self, tmp_path: Path) -> None:
        plain = tmp_path / self.sample.file
        plain.write_text(self.sample.text)
        packed = tmp_path / "packed" / f"{self.sample.file}.gz"
        packed.parent.mkdir()
        packed.write_bytes(gzip.compress(self.sample.text.encode()))
        assert read_trace(plain).jobs == read_trace(packed).jobs == self.read(self.sample.text).jobs
        assert read_trace(packed.parent).jobs == read_trace(plain, self.name).jobs

    def test_the_line_ends_and_the_mark_of_windows_change_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / self.sample.file
        path.write_bytes(b"\xef\xbb\xbf" + self.sample.text.replace("\n", "\r\n").encode())
        assert read_trace(path).jobs == self.read(self.sample.text).jobs

    def test_the_same_jobs_twice_are_refused_with_both_lines(self) -> None:
        if self.name in ("philly", "gavel"):  # whose jobs have no names
            return
        lines = self.sample.text.splitlines(keepends=True)
        text = self.sample.text.rstrip()[:-1] + "," + self.sample.text.strip()[1:] if self.name == "philly-log" else ""
        with pytest.raises(BadSpec, match=r"already|twice") as caught:
            self.read(text or "".join([*lines, *lines[(self.name != "pai") :]]))
        assert caught.value.fix

    def test_a_file_of_another_format_is_refused_in_words(self) -> None:
        for other, sample in SAMPLES.items():
            if other != self.name:
                with pytest.raises(BadSpec) as caught:
                    self.read(sample.text)
                assert caught.value.violations and caught.value.fix

    def test_a_header_alone_is_no_trace(self) -> None:
        first = "[]" if self.name == "philly-log" else self.sample.text.splitlines()[0]
        if self.name in ("pai", "gavel"):  # which have no header
            return
        with pytest.raises(BadSpec, match="no job"):
            self.read(first + "\n")

    def test_broken_files_are_refused_and_never_break_the_reader(self) -> None:
        @settings(max_examples=80, deadline=None, database=None, derandomize=True)
        @given(
            place=st.integers(0, 10_000),
            length=st.integers(0, 40),
            put=st.one_of(st.sampled_from(ODD), st.text(max_size=12)),
        )
        def anywhere(place: int, length: int, put: str) -> None:
            start = place % len(self.sample.text)
            self.try_(self.sample.text[:start] + put + self.sample.text[start + length :])

        @settings(max_examples=80, deadline=None, database=None, derandomize=True)
        @given(line=st.integers(0, 99), field=st.integers(0, 99), put=st.sampled_from(ODD))
        def a_field(line: int, field: int, put: str) -> None:
            mark = next(mark for mark in "|\t,:" if mark in self.sample.text)
            lines = self.sample.text.splitlines()
            fields = lines[line % len(lines)].split(mark)
            fields[field % len(fields)] = put
            lines[line % len(lines)] = mark.join(fields)
            self.try_("\n".join(lines))

        anywhere()
        a_field()

    def try_(self, text: str) -> None:
        """Read a text that may be broken: a trace, or everything that is wrong with it."""
        try:
            check(self.read(text))
        except BadSpec as error:
            assert error.violations and error.fix and len(str(error)) < 20_000
            assert all(self.sample.file in violation.field for violation in error.violations)

    def test_broken_bytes_are_refused_too(self) -> None:
        packed = gzip.compress(self.sample.text.encode())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.sample.file
            for content in (
                b"",
                b" \n",
                packed[:-9],
                packed + b"junk",
                b"\x1f\x8b",
                b"\xff\xfe" + b"a\0",
                b"a\xff\n\0",
            ):
                path.write_bytes(content)
                with pytest.raises(BadSpec) as caught:
                    read_trace(path, self.name)
                assert caught.value.fix


def check(trace: Trace) -> None:
    """What holds for every trace."""
    assert trace.jobs and len({job.name for job in trace.jobs}) == len(trace.jobs)
    for job in trace.jobs:
        assert job.name and job.submitted_at >= 0 and 0 < job.run_seconds < 1e10 and job.gpus_milli >= 0
        assert isinstance(job.gpus_milli, int) and isinstance(job.priority, int) and isinstance(job.nodes, int)
        assert job.vcpus >= 0 and job.memory_gb >= 0 and job.nodes >= 0
        assert job.deadline_seconds is None or job.deadline_seconds > 0
    for before, after in pairwise(trace.jobs):
        assert (before.submitted_at, before.name) < (after.submitted_at, after.name)
    assert all(count > 0 for count in trace.dropped.values())
