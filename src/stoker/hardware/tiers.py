"""The scale tiers: ready-made clusters of legacy machines, and CUSTOM, where the user names every machine."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from stoker.hardware.table import rows

CUSTOM = "CUSTOM"
DEFAULT_TIER = "BASIC"
ROLES = ("chief", "worker", "ps", "evaluator")  # the chief is also called master


class TierGroup(NamedTuple):
    """What a tier gives one role."""

    role: str
    replicas: int
    machine_type: str


def tiers() -> tuple[str, ...]:
    """The names of the scale tiers."""
    return tuple(_tiers())


def find_tier(text: str) -> str | None:
    """The tier meant by its name or its flag spelling (`standard-1`); no name at all means BASIC."""
    name = text.strip().upper().replace("-", "_") or DEFAULT_TIER
    return name if name in _tiers() else None


def tier_groups(tier: str) -> tuple[TierGroup, ...]:
    """The groups of a ready-made tier; () for CUSTOM. Raises KeyError for what is not a tier."""
    return _tiers()[tier]


@cache
def _tiers() -> Mapping[str, tuple[TierGroup, ...]]:
    groups: dict[str, tuple[TierGroup, ...]] = {}
    for row in rows("scale_tiers.csv"):
        known = groups.setdefault(row["tier"], ())
        if row["user_may_override"] == "no":
            group = TierGroup(find_role(row["role"]), int(row["replicas"]), row["machine_type"])
            groups[row["tier"]] = (*known, group)
    return MappingProxyType(groups)


def find_role(text: str) -> str:
    """The role meant, `master` being the chief; "" for what is not a role."""
    role = "chief" if text == "master" else text
    return role if role in ROLES else ""
