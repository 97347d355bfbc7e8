"""Answers of a server, in one line each."""

from __future__ import annotations

from typing import Any

NOW = 1_795_190_400.0


def a_gpu(n: int = 0, *, node: str = "box", job: str = "", busy: float = 50.0, **more: Any) -> dict[str, Any]:
    values = {
        "utilization_percent": busy,
        "sm_active_ratio": busy / 100,
        "memory_used_bytes": (1.0 + n) * (1 << 30),
        "memory_total_bytes": 80.0 * (1 << 30),
        "power_watts": 100.0 + busy,
        "power_limit_watts": 700.0,
        "temperature_celsius": 40.0 + n % 30,
    }
    return {
        "node": node,
        "index": n,
        "uuid": f"GPU-{node}-{n}",
        "product": "NVIDIA H100 80GB HBM3",
        "mig_profile": "",
        "values": values,
        "fault": None,
        "holders": [{"project": "p", "job": job, "replica": "chief-0"}] if job else [],
        "recent": [],
        **more,
    }


def a_node(name: str = "box", *, gpus: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "UP",
        "is_cordoned": False,
        "virtual": False,
        "accelerator": "NVIDIA_H100_80GB" if gpus else "",
        "accelerators": gpus,
        "accelerators_free": gpus,
        "values": {
            "cpu_percent": 25.0,
            "host_memory_used_bytes": 8.0 * (1 << 30),
            "network_sent_bytes_per_second": 1.5e6,
        },
        "recent": [],
        **more,
    }


def a_row(name: str = "j", *, nodes: tuple[str, ...] = ("box",), **more: Any) -> dict[str, Any]:
    return {
        "project": "p",
        "name": name,
        "owner": "ada",
        "state": "RUNNING",
        "since": NOW - 120,
        "replicas": 1,
        "accelerators": 1,
        "nodes": list(nodes),
        "step": 1200,
        "steps_per_second": 4.5,
        "data_wait_share": 0.25,
        **more,
    }


def an_overview(
    gpus: list[dict[str, Any]] | None = None,
    jobs: list[dict[str, Any]] | None = None,
    nodes: list[dict[str, Any]] | None = None,
    at: float = NOW,
) -> dict[str, Any]:
    gpus, jobs = gpus or [], jobs or []
    names = dict.fromkeys(gpu["node"] for gpu in gpus)
    nodes = nodes if nodes is not None else [a_node(name, gpus=len(gpus)) for name in names] or [a_node()]
    return {
        "at": at,
        "version": "0.1.0",
        "counts": {
            "nodes": len(nodes),
            "gpus": len(gpus),
            "gpus_held": sum(bool(gpu["holders"]) for gpu in gpus),
            "gpus_busy": sum(gpu["values"].get("utilization_percent", 0) >= 10 for gpu in gpus),
            "jobs_running": len(jobs),
            "jobs_waiting": 0,
        },
        "nodes": nodes,
        "gpus": gpus,
        "jobs": jobs,
    }


STEPS: dict[str, Any] = {
    "replicas": [
        {
            "step": 1200,
            "steps_per_second": 4.5,
            "data_wait_share": 0.25,
            "values": {"loss": 0.5, "norm": "nan"},
            "series": [
                {"steps_per_second": 4.0, "data_wait_share": 0.2, "values": {"loss": 1.0, "norm": "nan"}},
                {"steps_per_second": None, "data_wait_share": None, "values": {}},
                {"steps_per_second": 4.5, "data_wait_share": 0.25, "values": {"loss": 0.5}},
            ],
        }
    ],
    "findings": [{"code": "WAITS_FOR_DATA", "text": "chief-0 waits for data 25 %", "action": "read ahead"}],
}
