"""`stoker check`: a job's machines, zones and price, or everything that is wrong with it; no server needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import session, show
from stoker.cli.job_flags import UserArgsCommand, job_flags
from stoker.core.errors import BadSpec

if TYPE_CHECKING:
    from stoker.client.job_file import JobFile
    from stoker.hardware.rules import Shape


@click.command("check", cls=UserArgsCommand)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@job_flags
@session.json_option
def command(file: Path | None, as_json: bool, **flags: Any) -> int:
    """Validate a job: FILE is its config.yaml, or give flags, or both.

    Prints what it would run on, where, and for how much, on demand and spot; or every mistake, each with where it is, why, and
    the nearest valid choice.
    """
    from stoker.api.dialects.aiplatform_v1.jobs import read_job
    from stoker.cli.submission import read_submission
    from stoker.client.job_file import located
    from stoker.hardware.rules import zones_for

    if file is not None:
        flags["config_file"] = file
    source = None
    try:
        body, source = read_submission(flags, None, click.get_current_context().meta["user_args"])
        _assume_program(body)
        asked = read_job(body, session.site_rules())
    except BadSpec as error:
        if not as_json:
            raise located(error, source) from None
        show.data({"valid": False, "mistakes": _mistakes(error, source)})
        return show.REFUSED
    zones = zones_for(asked.shapes, asked.spec.region)
    rows = [_priced(shape, asked.spec.region) for shape in asked.shapes]
    if as_json:
        show.data({"valid": True, "region": asked.spec.region, "zones": zones, "machines": rows, "total": _total(rows)})
        return 0
    _show(rows, asked.spec.region, zones)
    return 0


def _mistakes(error: BadSpec, source: JobFile | None) -> list[dict[str, Any]]:
    """Each with the line of the file that it stands in, if it does."""
    return [
        {"line": (source.line(v) if source else 0) or None, "field": v.field, "why": v.description}
        for v in error.violations
    ]


def _assume_program(body: dict[str, Any]) -> None:
    """A config.yaml may leave the program to the flags of the submission: what is checked here is the rest."""
    body.setdefault("jobId", "checked")
    training = body.get("trainingInput")
    if isinstance(training, dict) and not (isinstance(c := training.get("masterConfig"), dict) and c.get("imageUri")):
        training.setdefault("packageUris", ["gs://checked/package.tar.gz"])
        training.setdefault("pythonModule", "trainer.task")


def _priced(shape: Shape, region: str) -> dict[str, Any]:
    from stoker.hardware.prices import Price, quote

    def price(spot: bool) -> tuple[float | None, list[str]]:
        found = quote(shape.machine.name, shape.accelerator, shape.accelerator_count, region, spot=spot)
        if isinstance(found, Price):
            return round(found.usd_per_hour * shape.count, 4), list(found.notes)
        return None, [found.why]

    (on_demand, notes), (spot, spot_notes) = price(False), price(True)
    return {
        "role": shape.role,
        "count": shape.count,
        "machine_type": shape.machine.name,
        "vcpus": shape.vcpus,
        "memory_gb": shape.memory_gb,
        "accelerator": shape.accelerator,
        "accelerators": shape.accelerator_count,
        "on_demand_usd_per_hour": on_demand,
        "spot_usd_per_hour": spot,
        "notes": list(dict.fromkeys([*notes, *spot_notes])),
    }


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def add(key: str) -> float | None:
        values = [row[key] for row in rows]
        return None if None in values else round(sum(values), 4)

    return {
        "replicas": sum(row["count"] for row in rows),
        "vcpus": sum(row["count"] * row["vcpus"] for row in rows),
        "memory_gb": sum(row["count"] * row["memory_gb"] for row in rows),
        "accelerators": sum(row["count"] * row["accelerators"] for row in rows),
        "on_demand_usd_per_hour": add("on_demand_usd_per_hour"),
        "spot_usd_per_hour": add("spot_usd_per_hour"),
    }


def _show(rows: list[dict[str, Any]], region: str, zones: list[str]) -> None:
    total = _total(rows)
    lines = [
        [
            row["role"],
            row["count"],
            row["machine_type"],
            f"{row['vcpus']:g}",
            f"{row['memory_gb']:g}",
            f"{row['accelerators']} {row['accelerator']}" if row["accelerators"] else "",
            _usd(row["on_demand_usd_per_hour"]),
            _usd(row["spot_usd_per_hour"]),
        ]
        for row in rows
    ]
    lines.append(
        [
            "in all",
            total["replicas"],
            "",
            f"{total['vcpus']:g}",
            f"{total['memory_gb']:g}",
            str(total["accelerators"]) if total["accelerators"] else "",
            _usd(total["on_demand_usd_per_hour"]),
            _usd(total["spot_usd_per_hour"]),
        ]
    )
    headers = ["ROLE", "COUNT", "MACHINE_TYPE", "VCPUS_EACH", "GB_EACH", "GPUS_EACH", "USD/H_ON_DEMAND", "USD/H_SPOT"]
    show.table(headers, lines)
    click.echo(f"zones of {region} that have all of it: {', '.join(zones) or 'none known'}")
    for text in dict.fromkeys(text for row in rows for text in row["notes"]):
        show.note(f"  price: {text}")
    show.done("valid")


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
