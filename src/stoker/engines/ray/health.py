"""How soon Ray notices that one of its nodes is gone: a minute by default, some six seconds with these in its environment.

They belong into the environment of every `ray start`, the head's above all: it is the head that asks the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

HEALTH_ENVIRONMENT: Mapping[str, str] = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
"""A node that misses three questions, one a second, counts as gone. One that does not reach the head for ten ends itself."""
