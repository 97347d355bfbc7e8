"""The site file: queues, quotas, policies and what may be preempted, as the admin wrote them."""

from __future__ import annotations

from stoker.config import Config
from stoker.core.site import Site


def read_site(config: Config) -> Site:
    """The site's rules."""
    return Site(policy=config["policy"], placer=config["placer"])
