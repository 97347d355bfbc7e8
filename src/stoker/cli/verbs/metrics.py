"""`stoker metrics`: how a job trains, and what it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from stoker.cli import session, show
from stoker.cli.job_hardware import hardware_of, show_hardware
from stoker.cli.outlook import duration
from stoker.cli.sparkline import sparkline

Row = Mapping[str, Any]

_WIDTH = 30
_POINTS = 240
_NO_STEPS = (
    "no step was seen: Keras' fit and PyTorch's optimizers tell of theirs by themselves; "
    "in another loop, call stoker.step(examples=…, loss=…) once a step"
)


@click.command("metrics")
@session.job_argument
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt.  [default: the newest that has trained]")
@session.project_option
@session.json_option
def command(job: str, attempt: int | None, project: str | None, as_json: bool) -> None:
    """Show how JOB trains: steps and examples a second, what it waits for, its values such as loss, and who is slow.

    Below it what its GPUs did meanwhile, where they are sampled (docs/monitoring.md says what the numbers mean).

    Rates are those of the last half minute; a line of bars shows how it went, from the first step to the last.
    """
    client, project = session.client(), session.the_project(project)
    training = client.steps(project, job, attempt=attempt or 0, points=_POINTS)
    took = client.metrics(project, job)
    hardware = hardware_of(client, project, job, attempt or training["attempt"] or 0, _POINTS)
    if as_json:
        show.data({"training": training, "hardware": hardware, **took})
        return
    if training["replicas"]:
        _show(training)
    else:
        show.note(_NO_STEPS)
    show_hardware(hardware)
    if training["scaling"]:
        show.progress(_scaling(training["scaling"]))
    for line in _saves(training["saves"]):
        show.progress(line)
    for finding in training["findings"]:
        show.warn(finding["text"])
        show.note(f"  → {finding['action']}")
    show.note(_took(took))


def _show(training: Row) -> None:
    if training["way"]:
        count = training["replicas_in_step"]
        several = f"on {count} replicas in step " if count and count > 1 else ""
        show.progress(f"trains {several}({training['way']})")
    headers = [
        "REPLICA",
        "STEP",
        "STEPS/S",
        "EXAMPLES/S",
        "A_STEP",
        "LONGEST",
        "FIRST",
        "DATA_WAIT",
        "TOGETHER",
        "STEPS/S SO FAR",
    ]
    show.table(headers, [_row(replica) for replica in training["replicas"]])
    chief = training["replicas"][0]
    if chief["epoch_steps"] and chief["step_seconds"]:
        seconds = _time(chief["epoch_steps"] * chief["step_seconds"])
        show.progress(f"an epoch has {chief['epoch_steps']} steps: {seconds}, without evaluating and saving")
    rows = list(_values(training["replicas"]))
    if rows:
        show.say("")
        show.table(["VALUE", "REPLICA", "LAST", "FROM", "TO", "SO FAR"], rows)


def _row(replica: Row) -> list[object]:
    speeds = [point["steps_per_second"] for point in replica["series"]]
    return [
        replica["replica"],
        replica["step"],
        _number(replica["steps_per_second"]),
        _number(replica["examples_per_second"]),
        _time(replica["step_seconds"]),
        _time(replica["longest_step_seconds"]),
        _time(replica["first_step_seconds"]),
        _share(replica["data_wait_share"]),
        _share(replica["together_share"]),
        sparkline(speeds, _WIDTH, from_zero=True),
    ]


def _values(replicas: Sequence[Row]) -> Iterator[list[object]]:
    """The values of the first replica that has any, and those that differ from them elsewhere are the reader's affair."""
    first = next((replica for replica in replicas if replica["values"]), None)
    for name, last in first["values"].items() if first else ():
        series = (
            [None if name not in p["values"] else float(p["values"][name]) for p in first["series"]] if first else []
        )
        known = [number for number in series if number is not None]
        if known and first:
            bars = sparkline(series, _WIDTH)
            yield [name, first["replica"], *map(_number, (float(last), min(known), max(known))), bars]


def _scaling(found: Row) -> str:
    fewer = "on one device" if found["probe_devices"] == 1 else f"on {found['probe_devices']}"
    share = _share(found["efficiency"])
    return f"{found['speed_up']:.2f}x as quick on {found['devices']} as {fewer} in {found['probe']}: {share} efficiency"


def _saves(saves: Row) -> Iterator[str]:
    if saves["resumed_step"] is not None:
        yield f"went on at step {saves['resumed_step']}"
    if saves["step"] is not None:
        cost = f"{_time(saves['seconds'])}, for {_time(saves['stall_seconds'])} of which training stood"
        ago = duration(max(0.0, time.time() - (saves["at"] or 0.0)))
        yield f"saved at step {saves['step']}, {ago} ago: {saves['bytes'] / 1e6:.1f} MB in {cost} ({saves['count']} so far)"


def _took(took: Row) -> str:
    held = took["preparing_seconds"] + took["running_seconds"]
    parts = [f"{took['state']}: held its machines for {duration(held)}", f"{took['machine_hours']:.2f} machine hours"]
    if took["accelerator_hours"]:
        parts.append(f"{took['accelerator_hours']:.2f} GPU hours")
    if took["cost_usd"] is not None:
        parts.append(f"{took['cost_usd']:.2f} USD")
    return ", ".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3e}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _share(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f} %"
