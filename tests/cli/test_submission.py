"""What is said of a submitted job."""

from __future__ import annotations

from typing import Any

from stoker.cli.submission import machines_line


def test_machines_in_one_line() -> None:
    def machine(role: str, count: int, kind: str, gpus: int = 0) -> dict[str, Any]:
        return {
            "role": role,
            "count": count,
            "machine_type": kind,
            "vcpus": 2.0,
            "accelerators": gpus,
            "accelerator": "T4",
        }

    machines = [machine("chief", 1, "n1-highcpu-16", 4), machine("worker", 9, ""), machine("ps", 3, "n1-highmem-8")]
    assert machines_line({"machines": machines}) == "chief n1-highcpu-16 + 4 T4 · 9 worker 2 vCPU · 3 ps n1-highmem-8"
