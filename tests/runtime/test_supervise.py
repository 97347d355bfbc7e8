"""The road of one replica, with real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.core.launch import ReplicaLimits
from stoker.core.states import FINAL_REPLICA_STATES, ReplicaState
from tests.contract.engine_contract import a_launch, until
from tests.contract.test_engines import a_local_engine


@pytest.mark.parametrize(("is_container", "code"), [(True, 139), (False, 11)])
def test_a_segmentation_fault_in_a_container_is_128_more(tmp_path: Path, is_container: bool, code: int) -> None:
    launch = a_launch("sh", "-c", "kill -SEGV $$")
    launch = replace(launch, replicas=tuple(replace(r, is_container=is_container) for r in launch.replicas))
    engine = a_local_engine(tmp_path)
    engine.start(engine.render(launch))
    assert until(engine, *FINAL_REPLICA_STATES).exit_code == code


def test_a_replica_that_fills_the_disk_is_ended(tmp_path: Path) -> None:
    launch = replace(a_launch("sh", "-c", FILLS), limits=ReplicaLimits(disk_bytes=5e6))
    engine = a_local_engine(tmp_path)
    engine.start(engine.render(launch))
    seen = until(engine, *FINAL_REPLICA_STATES)
    assert (seen.state, seen.sign, seen.exit_code) == (ReplicaState.FAILED, "DISK_QUOTA", 137)
    assert "and may hold 0.005 GB (job_disk_gb)" in seen.message


FILLS = "trap '' TERM; mkdir deep; while :; do head -c 1000000 /dev/zero >> deep/more; sleep 0.05; done"
FLOODS = """
import os, sys
for n in range(200_000):
    print("line", n)
os.write(1, b"x" * 20_000_000 + b"\\n")
print("words of the last moment", file=sys.stderr)
sys.exit(3)
"""


def test_of_a_program_that_floods_the_first_and_the_last_part_are_kept(tmp_path: Path) -> None:
    limits = ReplicaLimits(log_bytes=10e6, log_bytes_per_second=0.5e6)
    engine = a_local_engine(tmp_path)
    launch = replace(a_launch("python3", "-uc", FLOODS), limits=limits)
    engine.start(engine.render(launch))
    seen = until(engine, *FINAL_REPLICA_STATES)
    lines = [*engine.logs(launch.attempt, "chief-0", 0)]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert sum(len(line["m"]) + 100 for line in lines) < 5e6
    out = [line["m"] for line in lines if line["s"] == "out"]
    assert out[0] == "line 0" and out[-1].endswith("xxx")
    assert [line["m"] for line in lines if line["s"] == "err"] == ["words of the last moment"]
    notes = [line["m"] for line in lines if line["s"] == "service"]
    assert "stdout is cut here" in notes[0] and any("left out here" in note for note in notes)
    assert seen.exit_code == 3
