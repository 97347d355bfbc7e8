"""`stoker nodes`: the machines."""

from __future__ import annotations

import click

from stoker.cli import session, show


@click.command("nodes")
@session.json_option
def command(as_json: bool) -> None:
    """List the machines, real and declared, and what is free on them."""
    nodes = session.client().nodes()
    if as_json:
        show.data({"nodes": nodes})
        return
    rows = [
        [
            node["name"],
            node["state"],
            "virtual" if node["virtual"] else node["engine"],
            node["machine_type"],
            f"{node['accelerators_free']:g}/{node['accelerators']} {node['accelerator']}"
            if node["accelerators"]
            else "",
            f"{node['vcpus']:g}" + (" (soft)" if node["soft"] else ""),
            f"{node['memory_gb']:g}" + (" (soft)" if node["soft"] else ""),
            ", ".join(node["jobs"]),
        ]
        for node in nodes
    ]
    show.table(["NAME", "STATE", "KIND", "MACHINE_TYPE", "GPUS_FREE", "VCPUS", "MEMORY_GB", "JOBS"], rows)
    if any(node["soft"] for node in nodes):
        show.note(
            "soft: one job alone may ask for more vCPUs and memory than there are; GPUs are always counted strictly"
        )
