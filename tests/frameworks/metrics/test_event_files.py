"""Event files, as TensorBoard itself reads them."""

from __future__ import annotations

import math
from pathlib import Path

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from stoker.frameworks.metrics.event_files import EventFile, crc32c


@given(st.binary())
def test_checksums_are_those_of_a_library(data: bytes) -> None:
    assert crc32c(data) == google_crc32c.value(data)


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    file = EventFile(str(tmp_path / "run"))
    file.write(0, 1.0, {})
    assert not (tmp_path / "run").exists(), "nothing is made for nothing"
    file.write(1, 1000.5, {"loss": 2.5, "a name/with ümlaut": 1.0})
    file.write(1 << 40, 1001.5, {"loss": math.nan, "far": 1e300})
    read = EventAccumulator(str(tmp_path / "run")).Reload()
    assert set(read.Tags()["scalars"]) == {"loss", "a name/with ümlaut", "far"}
    first, last = read.Scalars("loss")
    assert (first.step, first.wall_time, first.value) == (1, 1000.5, 2.5)
    assert last.step == 1 << 40 and math.isnan(last.value) and read.Scalars("far")[0].value == math.inf
