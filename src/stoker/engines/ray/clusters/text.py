"""A cluster file as text: its content in YAML, below what a reader should know first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from stoker.core.site import Pool


def heading(provider: str, content: Mapping[str, Any], pools: Sequence[Pool], idle_seconds: float) -> list[str]:
    """What the file was made from, how large it can grow, and what to do with it."""
    if "spec" in content:
        rendered = [group["groupName"] for group in content["spec"]["workerGroupSpecs"]]
    else:
        rendered = [name for name in content["available_node_types"] if name != content["head_node_type"]]
    there = [pool for pool in pools if pool.name in rendered]
    lines = [
        f"Made by `stoker cluster render --provider {provider}` from these pools of the site file: {', '.join(rendered)}.",
        f"At most {sum(pool.most for pool in there)} machines beside the head, ordered when jobs need them; who is idle for"
        f" {idle_seconds:g} seconds is given back.",
    ]
    prices = [pool.usd_per_hour for pool in there]
    if provider == "gcp" and None not in prices:
        dollars = sum(pool.most * (pool.usd_per_hour or 0.0) for pool in there)
        lines.append(
            f"All of them at once: {dollars:.2f} US dollars an hour by the prices Stoker knows, disks and head aside."
        )
    return [*lines, f"Next: {next_step(provider, 'FILE')}"]


def next_step(provider: str, file: str) -> str:
    """The command that makes a cluster of a file."""
    return f"kubectl apply -f {file}" if provider == "kuberay" else f"stoker cluster up {file}"


def text_of(content: Mapping[str, Any], heading: Sequence[str]) -> str:
    """The file. `heading`: lines without the `#`."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in heading)
    body = yaml.dump(dict(content), Dumper=_Plain, sort_keys=False, width=10_000, allow_unicode=True)
    return f"{comment}\n{body}"


class _Plain(yaml.SafeDumper):
    """Says everything where it stands, without anchors that a reader would have to follow."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
