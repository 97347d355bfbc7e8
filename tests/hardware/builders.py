"""Requests in one line each, and the tables read without the code under test."""

import csv
from pathlib import Path

import stoker.hardware
from stoker.hardware.shapes import RoleRequest

DATA = Path(stoker.hardware.__file__).parent / "data"


def table(file: str) -> list[dict[str, str]]:
    """All rows of a data file."""
    with (DATA / file).open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def counts(cell: str) -> tuple[int, ...]:
    """`1|2|4` or `1, 2, 4` as numbers."""
    return tuple(int(n) for n in cell.replace("|", ",").split(",") if n)


def ask(role: str, count: int, machine_type: str = "", accelerator: str = "", each: int = 0) -> RoleRequest:
    """`count` replicas of a role on a machine type, `each` with so many of an accelerator."""
    return RoleRequest(
        role=role, count=count, machine_type=machine_type, accelerator=accelerator, accelerator_count=each
    )


def chief(machine_type: str = "", accelerator: str = "", each: int = 0) -> RoleRequest:
    """The one chief."""
    return ask("chief", 1, machine_type, accelerator, each)
