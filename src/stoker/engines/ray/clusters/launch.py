"""The part of a launcher's cluster file that is the same for every cloud: how a machine is set up, and Ray started on it.

Every key that Ray has a default for is said, since its defaults are examples: they install a nightly build of Ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.core.site import Pool
from stoker.engines.ray.health import HEALTH_ENVIRONMENT

from .base import Options
from .node_types import HEAD_TYPE, head_type

TOKEN_FILE = "~/.ray/auth_token"
"""Where Ray keeps the token that everybody in the cluster needs. The launcher copies it to every machine."""

ENVIRONMENT: Mapping[str, str] = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", **HEALTH_ENVIRONMENT}
"""Of every `ray start`."""

HEAD_ENVIRONMENT: Mapping[str, str] = {
    "AUTOSCALER_MAX_CONCURRENT_LAUNCHES": "1000",
    "AUTOSCALER_MAX_LAUNCH_BATCH": "1000",
}
"""So that the machines of a whole gang are ordered at once, not five or ten at a time."""

GCS_PORT = 6379
UPSCALING_SPEED = 1000.0
"""How many times the cluster may grow in one step."""

_PORTS = (
    ("object-manager-port", 8076),
    ("node-manager-port", 8077),
    ("runtime-env-agent-port", 8078),
    ("dashboard-agent-grpc-port", 8079),
    ("metrics-export-port", 8080),
    ("min-worker-port", 10002),
    ("max-worker-port", 19999),
)
"""Fixed, so that a firewall can be told them, and none of Ray's own among those that it gives to workers."""

_PLACE = "~/stoker-ray"


def cluster(
    options: Options,
    pools: Sequence[Pool],
    provider: Mapping[str, Any],
    head: dict[str, Any],
    node_types: Mapping[str, Mapping[str, Any]],
    *,
    sdk: Sequence[str],
) -> dict[str, Any]:
    """A whole cluster file. `provider`, `head`, `node_types`: in the cloud's own words; `sdk`: what the head orders with."""
    return {
        "cluster_name": options.name,
        "max_workers": sum(pool.most for pool in pools),
        "upscaling_speed": UPSCALING_SPEED,
        "idle_timeout_minutes": round(options.idle_seconds / 60, 3),
        "docker": {},
        "provider": dict(provider),
        "auth": {"ssh_user": "ubuntu"},
        "head_node_type": HEAD_TYPE,
        "available_node_types": {HEAD_TYPE: head_type(head), **node_types},
        "file_mounts": {TOKEN_FILE: TOKEN_FILE},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        "initialization_commands": [],
        "setup_commands": _setup(options),
        "head_setup_commands": [_install(*sdk)],
        "worker_setup_commands": [],
        "head_start_ray_commands": [
            "ray stop",
            _start(
                {**ENVIRONMENT, **HEAD_ENVIRONMENT},
                f"--head --port={GCS_PORT} --dashboard-host=127.0.0.1 --autoscaling-config=~/ray_bootstrap_config.yaml",
            ),
        ],
        "worker_start_ray_commands": ["ray stop", _start(ENVIRONMENT, f"--address=$RAY_HEAD_IP:{GCS_PORT}")],
    }


def _setup(options: Options) -> list[str]:
    """Python and Ray in an environment of their own, whatever the image has: both have to be the same everywhere."""
    pip = "python3 -m pip install --quiet --user"
    return [
        f"chmod 600 {TOKEN_FILE}",
        f"test -x ~/.local/bin/uv || {pip} uv || {pip} --break-system-packages uv",
        f"test -x {_PLACE}/bin/python || ~/.local/bin/uv venv --seed --python {options.python_version} {_PLACE}",
        _install(f"ray[default]=={options.ray_version}"),
        """grep -q stoker-ray ~/.bashrc || echo 'export PATH="$HOME/stoker-ray/bin:$PATH"' >> ~/.bashrc""",
    ]


def _install(*packages: str) -> str:
    quoted = " ".join(f"'{package}'" for package in packages)
    return f"~/.local/bin/uv pip install --quiet --python {_PLACE}/bin/python {quoted}"


def _start(environment: Mapping[str, str], how: str) -> str:
    exported = " ".join(f"{name}={value}" for name, value in environment.items())
    ports = " ".join(f"--{name}={port}" for name, port in _PORTS)
    return f"ulimit -n 65536; export {exported}; ray start {how} --disable-usage-stats {ports}"
