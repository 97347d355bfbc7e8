"""`stoker regions`: regions and their zones."""

from __future__ import annotations

import click

from stoker.cli import session, show


@click.command("regions")
@click.argument("name", required=False)
@click.option(
    "--gpu", "gpus", multiple=True, help="Only where a zone has this GPU; given several times, one that has all."
)
@session.json_option
def command(name: str | None, gpus: tuple[str, ...], as_json: bool) -> None:
    """Look up regions, all or the one of this NAME: where it is, and its zones that have what you ask for."""
    from stoker.hardware.accelerators import accelerators
    from stoker.hardware.regions import regions, zones_with

    wanted = [session.accelerator(gpu) for gpu in gpus]
    rows = []
    for region in regions().values():
        if name is not None and region.name != name:
            continue
        zones = zones_with(region.name, wanted)
        if wanted and not zones and name is None:
            continue
        has = (
            [a for a in accelerators() if a.startswith("NVIDIA") and zones_with(region.name, [a])]
            if not wanted
            else wanted
        )
        rows.append({"region": region.name, "location": region.location, "zones": list(zones), "accelerators": has})
    if name is not None and not rows:
        raise session.not_known("region", name, regions())
    if as_json:
        show.data({"regions": rows})
        return
    lines = [
        [
            row["region"],
            row["location"],
            " ".join(zone.rpartition("-")[2] for zone in row["zones"]),
            ", ".join(a.removeprefix("NVIDIA_").removeprefix("TESLA_") for a in row["accelerators"]),
        ]
        for row in rows
    ]
    show.table(["REGION", "LOCATION", "ZONES", "GPUS"], lines)
