"""How fast Ray notices that a machine is gone: settings of its own, in the environment of every `ray start`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

HEALTH_ENVIRONMENT: Mapping[str, str] = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
"""With these a node whose cable is pulled counts as dead after about six seconds; without them it takes a minute."""
