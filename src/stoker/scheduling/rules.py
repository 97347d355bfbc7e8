"""A site's rules with their policies and placer at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.core.site import DEFAULT_QUEUE, Queue, Site
from stoker.registry import load

from .base import Placer, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decisions go by."""

    site: Site
    policy: Policy
    placer: Placer
    policies: Mapping[str, Policy]  # of queues that have an order of their own

    def policy_of(self, queue: str) -> Policy:
        """The order within a queue."""
        return self.policies.get(queue, self.policy)

    def queue(self, name: str) -> Queue:
        """A queue. One that the site has no more is like the default one, so that its jobs still run."""
        queues = self.site.queues
        return queues.get(name) or queues.get(DEFAULT_QUEUE) or Queue(name=name)


def rules_of(site: Site) -> Rules:
    """The rules of a site. Raises NotFound for a policy or a placer that there is not."""
    return Rules(
        site=site,
        policy=load("policies", site.policy)(**site.policy_options),
        placer=load("placers", site.placer)(),
        policies={queue.name: load("policies", queue.policy)() for queue in site.queues.values() if queue.policy},
    )
