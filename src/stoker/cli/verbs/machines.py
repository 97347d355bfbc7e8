"""`stoker machines`: machine types."""

from __future__ import annotations

from typing import Any

import click

from stoker.cli import session, show


@click.command("machines")
@click.argument("name", required=False)
@click.option("--gpu", help="Only types that can have this GPU, with the counts that are valid.")
@click.option("--all", "show_all", is_flag=True, help="Also those that training may not ask for.")
@session.json_option
def command(name: str | None, gpu: str | None, show_all: bool, as_json: bool) -> None:
    """Look up machine types, all or the one of this NAME, with the GPUs built in and the counts that may be attached."""
    from stoker.hardware.limits import sold_with, valid_counts
    from stoker.hardware.machines import machine_types

    wanted = session.accelerator(gpu) if gpu else None
    rows: list[dict[str, Any]] = []
    for machine in machine_types().values():
        if name is not None and machine.name != name:
            continue
        if not (machine.offered or show_all or name):
            continue
        attach = (
            {a: list(valid_counts(machine.name, a)) for a in sold_with(machine.name)} if machine.gpu_attachable else {}
        )
        built_in = {machine.accelerator: machine.accelerator_count} if machine.accelerator else {}
        if wanted and wanted not in attach and wanted not in built_in:
            continue
        rows.append(
            {
                "machine_type": machine.name,
                "kind": "legacy" if machine.legacy else machine.series,
                "same_as": machine.gce_equivalent if machine.legacy else "",
                "vcpus": machine.vcpus,
                "memory_gb": machine.memory_gb,
                "built_in": built_in,
                "attachable": {wanted: attach[wanted]} if wanted in attach else ({} if wanted else attach),
            }
        )
    if name is not None and not rows:
        raise session.not_known("machine type", name, machine_types())
    if as_json:
        show.data({"machines": rows})
        return
    lines = [[r["machine_type"], r["kind"], r["same_as"], r["vcpus"], r["memory_gb"], _gpus(r)] for r in rows]
    show.table(["MACHINE_TYPE", "KIND", "SAME_AS", "VCPUS", "MEMORY_GB", "GPUS"], lines)


def _gpus(row: dict[str, Any]) -> str:
    built_in = [f"{count:g} {name}" for name, count in row["built_in"].items()]
    attachable = [f"{'/'.join(map(str, counts))} {name}" for name, counts in row["attachable"].items()]
    return ", ".join([*built_in, *attachable])
