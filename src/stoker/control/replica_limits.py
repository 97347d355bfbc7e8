"""What a replica may leave behind, by the site's settings."""

from __future__ import annotations

from stoker.config import Config
from stoker.core.launch import ReplicaLimits

_MB, _GB = 1e6, 1e9


def limits_of(config: Config) -> ReplicaLimits:
    """The limits of every replica."""
    return ReplicaLimits(
        log_bytes=config["log_mb"] * _MB,
        log_bytes_per_second=config["log_mb_per_second"] * _MB,
        job_log_bytes=config["job_log_mb"] * _MB,
        disk_bytes=config["job_disk_gb"] * _GB,
    )
