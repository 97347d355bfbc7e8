"""What `stoker top` shows, as lines: the site's machines with their GPUs, the jobs that run, and one of them alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from textwrap import wrap
from typing import Any

from stoker.cli import figures
from stoker.cli.outlook import duration
from stoker.cli.sparkline import sparkline

from .line import Column, Line, Span, fitted, heading, plain, row_of, widths
from .recent import Recent
from .training import training_lines

Row = Mapping[str, Any]

SORTS = ("place", "busy", "memory", "power", "temperature", "job")
"""By what GPUs can be sorted: their place in their machines, or a number, the greatest first."""

_NODES = (
    Column(name="NODE", least=24, most=40),
    Column(name="STATE", least=5, most=13, drop=2),
    Column(name="HELD", least=5, most=9, is_right=True, drop=5),
    Column(name="CPU", least=5, most=5, is_right=True),
    Column(name="MEMORY", least=12, most=16, is_right=True, drop=1),
    Column(name="NET IN", least=8, most=9, is_right=True, drop=3),
    Column(name="OUT", least=8, most=9, is_right=True, drop=3),
    Column(name="DISK READ", least=9, most=9, is_right=True, drop=7),
    Column(name="WRITTEN", least=9, most=9, is_right=True, drop=7),
    Column(name="5 MIN", least=9, most=60, drop=4, grows=True),
)
_GPUS = (
    Column(name="NODE", least=16, most=24, drop=3),
    Column(name="GPU", least=3, most=12, is_right=True),
    Column(name="PRODUCT", least=14, most=24, drop=9),
    Column(name="BUSY", least=5, most=16, is_right=True),
    Column(name="SM", least=5, most=5, is_right=True, drop=5),
    Column(name="MEMORY", least=11, most=13, is_right=True, drop=3),
    Column(name="POWER", least=9, most=9, is_right=True, drop=4),
    Column(name="TEMP", least=6, most=6, is_right=True, drop=2),
    Column(name="HELD BY", least=14, most=40),
    Column(name="5 MIN", least=9, most=60, drop=6, grows=True),
)
_JOBS = (
    Column(name="JOB", least=12, most=40),
    Column(name="OWNER", least=4, most=12, drop=7),
    Column(name="STATE", least=9, most=10, drop=3),
    Column(name="FOR", least=8, most=12, is_right=True, drop=4),
    Column(name="STEP", least=6, most=9, is_right=True, drop=6),
    Column(name="STEPS/S", least=7, most=7, is_right=True, drop=1),
    Column(name="DATA WAIT", least=9, most=9, is_right=True, drop=5),
    Column(name="GPUS", least=4, most=6, is_right=True),
    Column(name="BUSY", least=5, most=5, is_right=True),
    Column(name="NODES", least=8, most=60, drop=8, grows=True),
)
_INDENT = "  "
_NARROW = 62  # columns; with fewer the summary is shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What is to be shown."""

    overview: Row
    recent: Recent
    steps: Row | None = None  # of the job that is shown alone
    about: tuple[str, ...] = ()  # ("job", project, name) or ("node", name) that is shown alone; empty: all
    sort: str = SORTS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Lines that scroll, below headings that stay."""

    head: Sequence[Line] = field(default_factory=list)
    lines: Sequence[Line] = field(default_factory=list)


def summary(overview: Row, url: str, clock: str, width: int) -> list[Line]:
    """The first two lines: which server, when, and how much there is of everything."""
    counts = overview["counts"]
    left, right = f"stoker top {overview['version']}  {url}", clock
    title = fitted(left, max(0, width - len(right) - 1)) + " " + right
    if width < _NARROW:
        text = f"jobs {counts['jobs_running']}+{counts['jobs_waiting']}  GPUs {counts['gpus_busy']} busy"
        return [
            Line(((title[:width], "head"),)),
            Line(((f"{text} {counts['gpus_held']:g}/{counts['gpus']} held", ""),)),
        ]
    spans: list[Span] = [
        ("jobs ", "dim"),
        (f"{counts['jobs_running']} running", "busy" if counts["jobs_running"] else ""),
        (f" {counts['jobs_waiting']} waiting", "warn" if counts["jobs_waiting"] else "dim"),
        ("   GPUs ", "dim"),
        (f"{counts['gpus_busy']} busy", "busy" if counts["gpus_busy"] else ""),
        (f" {counts['gpus_held']:g} held", ""),
        (f" of {counts['gpus']}", "dim"),
        (f"   nodes {counts['nodes']}", "dim"),
    ]
    return [Line(((title[:width], "head"),)), Line(tuple(spans))]


def board(screen: Screen, width: int) -> Board:
    """All of it, or what is about one job or one node."""
    if screen.about[:1] == ("job",):
        return _job_board(screen, width)
    nodes = [row for row in screen.overview["nodes"] if screen.about in ((), ("node", row["name"]))]
    names = {row["name"] for row in nodes}
    gpus = [row for row in screen.overview["gpus"] if row["node"] in names]
    jobs = [row for row in screen.overview["jobs"] if not screen.about or names.intersection(row["nodes"])]
    head, lines = _machines(screen, nodes, gpus, width)
    return Board(head=head, lines=[*lines, *_left_out(screen), *_jobs(screen, jobs, width)])


def _machines(screen: Screen, nodes: Sequence[Row], gpus: Sequence[Row], width: int) -> tuple[list[Line], list[Line]]:
    """Nodes, each with its GPUs below it; or, where GPUs are sorted by a number, first all of these."""
    node_cells = [_node_cells(row, screen.recent) for row in nodes]
    by_place = screen.sort == SORTS[0]
    ordered = gpus if by_place else sorted(gpus, key=_order(screen.sort))
    gpu_cells = [_gpu_cells(row, screen.recent, with_node=not by_place) for row in ordered]
    node_sizes = _sizes(_NODES, node_cells, width)
    gpu_sizes = _sizes(_GPUS, gpu_cells, width - len(_INDENT))
    node_lines = [
        Line(
            row_of(_NODES, node_sizes, _with_bars(cells, node_sizes, screen.recent.of(row["name"]))),
            ("node", row["name"]),
        )
        for row, cells in zip(nodes, node_cells, strict=True)
    ]
    gpu_lines = [
        Line(
            ((_INDENT, ""), *row_of(_GPUS, gpu_sizes, _with_bars(cells, gpu_sizes, screen.recent.of(row["uuid"])))),
            _about_gpu(row),
        )
        for row, cells in zip(ordered, gpu_cells, strict=True)
    ]
    node_head = Line(heading(_NODES, node_sizes))
    gpu_head = Line(((_INDENT, ""), *heading(_GPUS, gpu_sizes)))
    if not gpus:
        return [node_head], node_lines
    if not by_place:
        return [gpu_head], [*gpu_lines, Line(), node_head, *node_lines]
    below: dict[str, list[Line]] = {}
    for row, line in zip(ordered, gpu_lines, strict=True):
        below.setdefault(row["node"], []).append(line)
    return [node_head, gpu_head], [
        found for row, line in zip(nodes, node_lines, strict=True) for found in (line, *below.get(row["name"], ()))
    ]


def _left_out(screen: Screen) -> Iterator[Line]:
    more = screen.overview["counts"]["nodes"] - len(screen.overview["nodes"])
    if more > 0 and not screen.about:
        yield Line(((f"and {more} nodes more: stoker nodes list", "dim"),))


def _jobs(screen: Screen, jobs: Sequence[Row], width: int) -> Iterator[Line]:
    yield Line()
    if not jobs:
        is_held = screen.overview["counts"]["gpus_held"] and not screen.overview["jobs"]
        text = "no job that you may see" if is_held else "no job here" if screen.about else "no job holds a machine"
        yield Line(((text, "dim"),))
        return
    with_project = len({row["project"] for row in screen.overview["jobs"]}) > 1
    busy = _busy_of_jobs(screen.overview["gpus"])
    cells = [_job_cells(row, screen.overview["at"], busy, with_project=with_project) for row in jobs]
    sizes = _sizes(_JOBS, cells, width)
    yield Line(heading(_JOBS, sizes))
    for row, found in zip(jobs, cells, strict=True):
        yield Line(row_of(_JOBS, sizes, found), ("job", row["project"], row["name"]))
    more = screen.overview["counts"]["jobs_running"] - len(screen.overview["jobs"])
    if more > 0:
        yield Line(((f"and {more} jobs more: stoker list", "dim"),))


def _job_board(screen: Screen, width: int) -> Board:
    """One job: what it is, how it trains, and its GPUs."""
    _, project, name = screen.about
    row = next((row for row in screen.overview["jobs"] if (row["project"], row["name"]) == (project, name)), None)
    title: Span = (plain(name), "job")
    if row is None:
        return Board(lines=[Line((title, (" holds no machine now: stoker why ", ""), (plain(name), "")))])
    what = [
        f"of {plain(row['owner'])} in {plain(project)}",
        f"for {duration(screen.overview['at'] - row['since'])}",
        figures.counted(row["replicas"], "replica"),
        *([figures.counted(row["accelerators"], "GPU")] if row["accelerators"] else []),
    ]
    lines = [
        Line((title, ("  ", ""), (row["state"], _state_style(row["state"])))),
        *(Line(((text, ""),)) for text in wrap(", ".join(what), max(20, width))),
        *(Line(((text, "dim"),)) for text in wrap("on " + ", ".join(map(plain, row["nodes"])), max(20, width))),
        Line(),
        *training_lines(screen.steps, width),
        Line(),
    ]
    gpus = [gpu for gpu in screen.overview["gpus"] if (project, name) in _holders(gpu)]
    names = {gpu["node"] for gpu in gpus} or set(row["nodes"])
    nodes = [node for node in screen.overview["nodes"] if node["name"] in names]
    head, below = _machines(screen, nodes, gpus, width)
    return Board(lines=[*lines, *head, *below])


def _sizes(columns: Sequence[Column], rows: Iterable[Sequence[Span]], width: int) -> list[int]:
    return widths(columns, [[text for text, _ in row] for row in rows], width)


def _with_bars(cells: Sequence[Span], sizes: Sequence[int], recent: Sequence[float | None]) -> Sequence[Span]:
    """The last cell as bars, the newest at its right end."""
    room = sizes[-1]
    bars = sparkline(recent[-room:], room, from_zero=True, most=100.0) if room else ""
    return [*cells[:-1], (bars.rjust(room), "busy")]


def _place_of_bars(recent: Sequence[float | None]) -> Span:
    """What stands in the cell of the bars before it is known how wide it is; empty, if there are none."""
    return ("▁" if any(value is not None for value in recent) else "", "")


def _node_cells(row: Row, recent: Recent) -> list[Span]:
    values = row["values"]
    state = row["state"] + (" cordoned" if row["is_cordoned"] else "")
    style = "bad" if row["state"] != "UP" else "warn" if row["is_cordoned"] else "good"
    count = row["accelerators"]
    return [
        (plain(row["name"]), "head"),
        (state, style),
        (f"{count - row['accelerators_free']:g}/{count}" if count else "", ""),
        (figures.percent(values.get("cpu_percent")), ""),
        (figures.of(values.get("host_memory_used_bytes"), values.get("host_memory_total_bytes"), 1 << 30, "GiB"), ""),
        *(
            (figures.speed(values.get(f"{name}_bytes_per_second")), "")
            for name in ("network_received", "network_sent", "disk_read", "disk_written")
        ),
        _place_of_bars(recent.of(row["name"])),
    ]


def _gpu_cells(row: Row, recent: Recent, *, with_node: bool) -> list[Span]:
    values = row["values"]
    holders = [f"{plain(holder['job'])}/{holder['replica']}" for holder in row["holders"]]
    held = holders[0] + (f" +{len(holders) - 1}" if len(holders) > 1 else "") if holders else ""
    hot = values.get("temperature_celsius", 0.0) >= values.get("slowdown_celsius", 1e9)
    busy = values.get("utilization_percent")
    return [
        (plain(row["node"]) if with_node else "", ""),
        (f"{row['index']}{'/' + plain(row['mig_profile']) if row['mig_profile'] else ''}", ""),
        (plain(row["product"]).removeprefix("NVIDIA "), "dim"),
        (row["fault"], "bad") if row["fault"] else (figures.percent(busy), "busy" if (busy or 0) >= 10 else "dim"),
        (figures.share(values.get("sm_active_ratio")), ""),
        (figures.of(values.get("memory_used_bytes"), values.get("memory_total_bytes"), 1 << 30, "GiB"), ""),
        (figures.of(values.get("power_watts"), values.get("power_limit_watts"), 1, "W"), ""),
        (figures.celsius(values.get("temperature_celsius")), "bad" if hot else ""),
        (held or "-", "job" if held else "dim"),
        _place_of_bars(recent.of(row["uuid"])),
    ]


def _job_cells(
    row: Row, now: float, busy: Mapping[tuple[str, str], Sequence[float]], *, with_project: bool
) -> list[Span]:
    name = plain(row["name"])
    means = busy.get((row["project"], row["name"]), ())
    waits = row["data_wait_share"]
    return [
        (f"{plain(row['project'])}/{name}" if with_project else name, "job"),
        (plain(row["owner"]), ""),
        (row["state"], _state_style(row["state"])),
        (duration(now - row["since"]), ""),
        (str(row["step"]) if row["step"] is not None else "", ""),
        (figures.number(row["steps_per_second"]), ""),
        (figures.share(waits), "warn" if (waits or 0.0) >= 0.1 else ""),
        (f"{row['accelerators']:g}" if row["accelerators"] else "-", ""),
        (figures.percent(fmean(means)) if means else "", ""),
        (", ".join(map(plain, row["nodes"])), "dim"),
    ]


def _busy_of_jobs(gpus: Iterable[Row]) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for gpu in gpus:
        for job in _holders(gpu):
            if "utilization_percent" in gpu["values"]:
                found.setdefault(job, []).append(gpu["values"]["utilization_percent"])
    return found


def _holders(gpu: Row) -> set[tuple[str, str]]:
    return {(holder["project"], holder["job"]) for holder in gpu["holders"]}


def _about_gpu(row: Row) -> tuple[str, ...]:
    """A GPU, and the job that holds it, if one does."""
    holder = row["holders"][0] if row["holders"] else None
    return ("gpu", row["uuid"]) if holder is None else ("gpu", row["uuid"], holder["project"], holder["job"])


def _order(sort: str) -> Callable[[Row], tuple[Any, ...]]:
    if sort == "job":
        return lambda row: (not row["holders"], *((h["project"], h["job"], h["replica"]) for h in row["holders"]))
    name = {
        "busy": "utilization_percent",
        "memory": "memory_used_bytes",
        "power": "power_watts",
        "temperature": "temperature_celsius",
    }[sort]
    return lambda row: (-row["values"].get(name, -1.0), row["node"], row["index"])


def _state_style(state: str) -> str:
    return {"RUNNING": "busy", "PREPARING": "warn", "CANCELLING": "warn"}.get(state, "")
