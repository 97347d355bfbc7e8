"""What the kernel tells of a program's end: of this program, and of its GPUs, alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.runtime.kernel import Kernel

LOG = [
    "Memory cgroup out of memory: Killed process 4711 (python) total-vm:34012340kB",
    "Out of memory: Killed process 99 (python3) total-vm:103456780kB",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:86:00): 48, pid=1234, name=python, DBE (double bit error) ECC Error",
    "eth0: link is up",
]


@pytest.fixture
def gpus(tmp_path: Path) -> str:
    """The driver's folder on a machine of two GPUs."""
    for number, (address, uuid) in enumerate([("0000:3b:00.0", "GPU-5f1e"), ("0000:86:00.0", "GPU-77aa")]):
        (tmp_path / address).mkdir()
        text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
        (tmp_path / address / "information").write_text(text)
    return str(tmp_path)


def told(gpus: str, pid: int, devices: str) -> list[int]:
    """Which lines of the log are taken for the program's."""
    kernel = Kernel(read_log=lambda since: LOG, gpus=gpus)
    return [LOG.index(line) for line in kernel.evidence(pid, devices, was_killed=False)]


def test_a_kill_counts_if_it_was_of_this_program(gpus: str) -> None:
    assert told(gpus, 4711, "") == [0]
    assert told(gpus, 99, "") == [1]
    assert told(gpus, 1, "") == []


@pytest.mark.parametrize(("devices", "lines"), [("GPU-5f1e", [2]), ("1", [3]), ("GPU-5f1e,GPU-77aa", [2, 3]), ("", [])])
def test_an_error_of_a_gpu_counts_if_the_program_has_it(gpus: str, devices: str, lines: list[int]) -> None:
    assert told(gpus, 1, devices) == lines


def test_where_the_places_of_gpus_are_not_told_every_error_counts_for_who_has_one() -> None:
    assert told("/nowhere", 1, "0") == [2, 3]
    assert told("/nowhere", 1, "") == []


def test_without_any_right_to_look_nothing_is_told() -> None:
    assert Kernel(read_log=lambda since: []).evidence(1, "0", was_killed=True) == []
