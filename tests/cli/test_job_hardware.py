"""What the GPUs of a job did, beside its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.job_hardware import hardware_of, show_hardware
from tests.cli.gpu_site import a_gpu_site


def test_a_row_for_each_gpu_of_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_gpu_site(tmp_path / "home") as site:
        first, second = hardware_of(site.client, "local", "train", 0, 60)
        assert hardware_of(site.client, "local", "waits", 0, 60) == [], "it has had no place yet"
    assert (first["replica"], first["gpu"], second["gpu"]) == ("chief-0", "GPU-fake-0", "GPU-fake-1")
    assert 93 <= first["utilization_percent"] <= 99 and first["sm_active_ratio"] == pytest.approx(
        0.0078 * first["utilization_percent"], rel=0.01
    )
    assert first["most_memory_used_bytes"] == pytest.approx(0.86 * 80 * 2**30, rel=1e-4)
    assert first["power_watts"] < first["power_limit_watts"] == 700.0
    assert first["highest_temperature_celsius"] == pytest.approx(34 + 0.3 * 99, abs=0.2)
    show_hardware([first, second])
    _, heads, line, _ = capsys.readouterr().out.splitlines()
    assert heads.split()[:3] == ["REPLICA", "GPU", "BUSY"]
    assert line.split()[:2] == ["chief-0", "GPU-fake-0"] and "68.8/80 GiB" in line and "64 °C" in line and "█" in line


def test_nothing_is_shown_where_nothing_was_sampled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_gpu_site(tmp_path / "home", seconds=-1) as site:
        assert hardware_of(site.client, "local", "train", 0, 60) == []
        show_hardware([])
    assert capsys.readouterr().out == ""


def test_hundreds_of_gpus_are_not_all_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_gpu_site(tmp_path / "home", seconds=5) as site:
        row = hardware_of(site.client, "local", "train", 0, 60)[0]
    show_hardware([row] * 100)
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 66 and "36 GPUs more" in told.err
