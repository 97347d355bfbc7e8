"""The open sets, as tables of strings: imported when asked for, so that nobody needs Ray to run locally.

Another package adds a member by an entry point of the group `stoker.engines`, `stoker.policies`, … with the same form.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from stoker.core.errors import NotFound

MEMBERS: Mapping[str, Mapping[str, str]] = {
    "engines": {
        "local": "stoker.engines.local.engine:LocalEngine",
        "fake": "stoker.engines.fake:FakeEngine",
        "ray": "stoker.engines.ray.engine:RayEngine",
    },
    "policies": {
        "fifo": "stoker.scheduling.policies.fifo:Fifo",
        "ftf": "stoker.scheduling.policies.ftf:FinishTimeFairness",
        "gittins": "stoker.scheduling.policies.gittins:Gittins",
        "las": "stoker.scheduling.policies.las:Las",
        "priority": "stoker.scheduling.policies.priority:Priority",
        "srsf": "stoker.scheduling.policies.srsf:Srsf",
    },
    "placers": {
        "best-fit": "stoker.scheduling.placers.best_fit:BestFit",
        "fgd": "stoker.scheduling.placers.fgd:Fgd",
        "pack": "stoker.scheduling.placers.pack:Pack",
        "shadow-price": "stoker.scheduling.placers.shadow_price:ShadowPrice",
        "spread": "stoker.scheduling.placers.spread:Spread",
    },
    "kinds": {"training": "stoker.kinds.training:Training"},
    "dialects": {
        "aiplatform_v1": "stoker.api.dialects.aiplatform_v1.routes:router",
        "logging_v2": "stoker.api.dialects.logging_v2.routes:router",
        "native": "stoker.api.dialects.native.routes:router",
        "prometheus": "stoker.api.dialects.prometheus.routes:router",
        "replica": "stoker.api.dialects.replica.routes:router",
        "storage_v1": "stoker.api.dialects.storage_v1.routes:router",
        "vertex_v1": "stoker.api.dialects.vertex_v1.routes:router",
    },
    "drivers": {
        "amdsmi": "stoker.gpu.drivers.amdsmi:AmdSmiDriver",
        "nvml": "stoker.gpu.drivers.nvml:NvmlDriver",
        "fake": "stoker.gpu.drivers.fake:FakeDriver",
    },
    "clusters": {
        "aws": "stoker.engines.ray.clusters.aws:Aws",
        "azure": "stoker.engines.ray.clusters.azure:Azure",
        "gcp": "stoker.engines.ray.clusters.gcp:Gcp",
        "kuberay": "stoker.engines.ray.clusters.kuberay:KubeRay",
    },
    "channels": {
        "email": "stoker.alerts.channels.email:Email",
        "slack": "stoker.alerts.channels.slack:Slack",
        "webhook": "stoker.alerts.channels.webhook:Webhook",
    },
    "traces": {
        "acme": "stoker.simulate.traces.acme:Acme",
        "chronus": "stoker.simulate.traces.chronus:Chronus",
        "gavel": "stoker.simulate.traces.gavel:Gavel",
        "helios": "stoker.simulate.traces.helios:Helios",
        "muri": "stoker.simulate.traces.muri:Muri",
        "openb": "stoker.simulate.traces.openb:Openb",
        "pai": "stoker.simulate.traces.pai:Pai",
        "pai-simulator": "stoker.simulate.traces.pai_simulator:PaiSimulator",
        "philly": "stoker.simulate.traces.philly:Philly",
        "philly-log": "stoker.simulate.traces.philly_log:PhillyLog",
        "slurm": "stoker.simulate.traces.slurm:Slurm",
        "spot": "stoker.simulate.traces.spot:Spot",
    },
}


def names(group: str) -> list[str]:
    """The members of an open set."""
    return sorted({*MEMBERS[group], *_entry_points(group)})


def load(group: str, name: str) -> Any:
    """One member. Raises NotFound with the names there are."""
    target = MEMBERS[group].get(name) or _entry_points(group).get(name)
    if target is None:
        raise NotFound(f"no {group.removesuffix('s')} {name!r}; there are {', '.join(names(group))}")
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points(group: str) -> dict[str, str]:
    return _found().get(f"stoker.{group}", {})


@cache
def _found() -> dict[str, dict[str, str]]:
    """Those of all installed packages, by group: read once, for reading them takes tens of milliseconds."""
    from importlib.metadata import entry_points

    found = entry_points()
    return {
        group: {p.name: p.value for p in found.select(group=group)}
        for group in found.groups
        if group.startswith("stoker.")
    }
