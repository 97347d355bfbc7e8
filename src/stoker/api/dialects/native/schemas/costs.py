"""What the site's machines cost: pools, bills and budgets."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .server import Cordon, Fault
from .words import says


class Pool(TypedDict):
    """Machines that are ordered when a job needs them, and given back when nobody does."""

    name: Annotated[str, says("Its name; as a node it is called `pool:` and this.", "t4x4")]
    machine_type: Annotated[str, says("The type of its machines; empty for a shape of its own.", "n1-highcpu-16")]
    accelerator: Annotated[str, says("The type of their accelerators; empty for none.", "NVIDIA_TESLA_T4")]
    accelerators: Annotated[int, says("How many accelerators each has.", 4)]
    vcpus: Annotated[float, says("vCPUs of each.", 16.0)]
    memory_gb: Annotated[float, says("Memory of each in GB.", 14.4)]
    region: Annotated[str, says("Their region; empty stands for any.", "us-west1")]
    zone: Annotated[str, says("Their zone; empty: wherever there is room.", "us-west1-a")]
    spot: Annotated[bool, says("Whether they may be taken away at any time.", False)]
    usd_per_hour: Annotated[float | None, says("What one costs by the hour; null: nobody knows.", 1.96679)]
    least: Annotated[int, says("So many are there all the time.", 0)]
    most: Annotated[int, says("So many there are at most.", 12)]
    there: Annotated[int, says("So many are there now.", 9)]
    takes_orders: Annotated[bool, says("Whether machines are ordered from it now.", True)]
    cordon: Cordon | None
    failures: Annotated[list[Fault], says("Orders that it did not fill within a day, oldest first.", [])]


class Pools(TypedDict):
    """All pools of the site."""

    pools: list[Pool]


class Bill(TypedDict):
    """What one job has cost on one day."""

    day: Annotated[str, says("The day, in UTC.", "2026-11-22")]
    project: Annotated[str, says("The job's project.", "local")]
    job: Annotated[str, says("The job's name.", "train_3f2a")]
    owner: Annotated[str, says("Who submitted it.", "ada")]
    queue: Annotated[str, says("Its queue.", "default")]
    machine_hours: Annotated[float, says("Hours of every machine of which it held something.", 13.0)]
    accelerator_hours: Annotated[float, says("Hours of its accelerators.", 40.0)]
    usd: Annotated[float | None, says("US dollars, at the pools' and the catalog's prices; null: not known.", 21.09)]
    ordered_usd: Annotated[float, says("Of that, what was paid for machines that were ordered for it.", 21.09)]


class Budget(TypedDict):
    """What a project may spend on machines that are ordered for it, and what it has spent."""

    project: Annotated[str, says("The project.", "local")]
    usd_per_hour: Annotated[float | None, says("The most by the hour; null: no limit.", 40.0)]
    held_usd_per_hour: Annotated[float, says("What it holds now costs so much by the hour.", 21.09)]
    usd_per_month: Annotated[float | None, says("The most in a calendar month, UTC; null: no limit.", 3000.0)]
    spent_usd: Annotated[float, says("What it has spent this month.", 412.5)]


class Costs(TypedDict):
    """What jobs have cost, and what is left to spend."""

    since: Annotated[float, says("From when, in seconds since 1970.", 1760000000.0)]
    until: Annotated[float, says("Until when: now.", 1760003600.0)]
    bills: Annotated[list[Bill], says("One for each day and job, by day.", [])]
    budgets: Annotated[list[Budget], says("Of projects that have one, and have cost or hold anything.", [])]
