"""The cluster files that tests compare with, and what makes them. `python -m tests.engines.cluster_files` writes them anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.core.copies import replace
from stoker.core.site import Site
from stoker.engines.ray.clusters.base import Options
from stoker.engines.ray.clusters.text import heading, text_of
from stoker.registry import load
from stoker.site.site_file import parse_site

SITE = """
[pools.t4x4]
machine_type = "n1-highcpu-16"
accelerator_type = "T4"
accelerator_count = 4
zone = "us-west1-a"
max = 12

[pools.cpu8]
machine_type = "n1-standard-8"
zone = "us-west1-a"
min = 1
max = 6

[pools.spot-v100]
machine_type = "n1-standard-4"
accelerator_type = "V100"
zone = "us-west1-a"
spot = true
max = 4
"""

FLAGS: Mapping[str, Mapping[str, str]] = {
    "gcp": {"project_id": "my-project"},
    "aws": {"region": "us-west-2"},
    "azure": {"region": "westus2"},
    "kuberay": {},
}
"""What is said beside the pools, by provider."""

WITHOUT_GPUS = {"aws": "m5.2xlarge", "azure": "Standard_D8s_v3"}
"""What a cloud calls a machine like n1-standard-8: no table has it."""


def a_site(text: str = SITE) -> Site:
    """The rules of a site file."""
    return parse_site(text)


def options_of(provider: str, **said: Any) -> Options:
    """What a test says to a provider."""
    plain = {"ray_version": "2.60.0", "python_version": "3.11.7", "idle_seconds": 600.0}
    return Options(**{**plain, **FLAGS[provider], **said})


def rendered(provider: str, site: Site | None = None, **said: Any) -> dict[str, Any]:
    """The content of a provider's file."""
    site = site or site_for(provider)
    content: dict[str, Any] = load("clusters", provider)().render(
        list(site.pools.values()), options_of(provider, **said)
    )
    return content


def site_for(provider: str) -> Site:
    """The site, with names of the cloud's own where its tables end."""
    site, instance = a_site(), WITHOUT_GPUS.get(provider, "")
    return replace(site, pools={**site.pools, "cpu8": replace(site.pools["cpu8"], instance=instance)})


def text_for(provider: str) -> str:
    """A provider's whole file."""
    site, content = site_for(provider), rendered(provider)
    return text_of(content, heading(provider, content, list(site.pools.values()), site.idle_seconds))


def golden(provider: str) -> Path:
    """Where the file lies that is compared with."""
    return Path(__file__).parent / "data" / f"cluster_{provider}.yaml"


if __name__ == "__main__":
    for each in FLAGS:
        golden(each).write_text(text_for(each), encoding="utf-8")
