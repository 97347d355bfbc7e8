"""Plots as inline SVG. Colours are classes: a page, or a picture by itself, says what they are in light and in dark.

The eight colours are those of Okabe and Ito, which people with colour blindness can tell apart; lines differ in their dashes
and points in their shapes as well. Whoever points at something reads its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from . import axes
from .axes import Axis
from .markup import Markup, joined, tag

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 40, 46
COLOURS = 8
POINTS_TO_READ = 80  # of a line
STYLE = """\
svg{--ink:#1c2430;--faint:#5c6675;--grid:#e3e7ec;--paper:#fff;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;
--c4:#b58900;--c5:#56b4e9;--c6:#444;--c7:#a0a6ae;font:12px system-ui,sans-serif;max-width:100%;height:auto}
@media (prefers-color-scheme:dark){svg{--ink:#e6eaf0;--faint:#9aa5b4;--grid:#2b3340;--paper:#151a21;--c0:#4da3e0;--c1:#ff8a3d;
--c2:#2fc79a;--c3:#e39ac4;--c4:#f0c541;--c5:#8fd0f7;--c6:#ccc;--c7:#7c8490}}
@media print{svg{--ink:#000;--faint:#444;--grid:#ddd;--paper:#fff}}
svg text{fill:var(--faint)}svg .name{fill:var(--ink);font-weight:600;font-size:14px}svg .key{fill:var(--ink)}
svg .grid{stroke:var(--grid);stroke-width:1}svg .axis{stroke:var(--faint);stroke-width:1}
svg .line{fill:none;stroke-width:1.8;stroke-linejoin:round}svg .read{fill:transparent;stroke:none}
svg .read:hover{fill:var(--ink);fill-opacity:.35}svg .bound{stroke:var(--ink);stroke-width:2}
""" + "".join(
    f"svg .s{n}{{stroke:var(--c{n})}}svg .f{n}{{fill:var(--c{n});stroke:var(--paper);stroke-width:.5}}"
    for n in range(COLOURS)
)
DASHES = (None, "7 3", "2 2", "9 3 2 3", "4 4", "1 3", "12 4", "6 2 1 2")
SHAPES = ("M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "M-4.5-4.5h9v9h-9z", "M0-6l5.5 10h-11z", "M0-6l6 6l-6 6l-6-6z")


@dataclass(frozen=True, slots=True)
class Series:
    """One thing over something: its name and its points."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Frame:
    """What all plots have: a name, two axes, and a legend."""

    name: str
    across: Axis
    up: Axis
    keys: Sequence[str]
    left: int = LEFT

    def x(self, value: float) -> float:
        """Where a value lies across."""
        return round(self.left + self.across.part(value) * (WIDTH - self.left - RIGHT), 1)

    def y(self, value: float) -> float:
        """Where a value lies up."""
        return round(HEIGHT - BOTTOM - self.up.part(value) * (HEIGHT - BOTTOM - TOP), 1)

    def drawn(self, *inside: object) -> Markup:
        """The plot with everything around it."""
        return tag(
            "svg",
            *self._around(),
            *inside,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            width=WIDTH,
            height=HEIGHT,
            role="img",
            aria_label=self.name,
        )

    def _around(self) -> Iterator[Markup]:
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for value, text in self.up.marks:
            yield tag("line", x1=self.left, x2=right, y1=self.y(value), y2=self.y(value), kind="grid")
            yield tag("text", text, x=self.left - 6, y=self.y(value) + 4, text_anchor="end")
        for value, text in self.across.marks:
            x = self.x(value)
            yield tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, kind="axis")
            anchor = "end" if x > right - 12 else "middle"
            yield tag("text", text, x=x, y=bottom + 17, text_anchor=anchor)
        yield tag("line", x1=self.left, x2=right, y1=bottom, y2=bottom, kind="axis")
        yield tag("text", self.across.label, x=(self.left + right) / 2, y=HEIGHT - 10, text_anchor="middle")
        yield tag(
            "text",
            self.name,
            tag("tspan", f"  {self.up.label}", style="font-weight:400;font-size:12px"),
            x=2,
            y=14,
            kind="name",
        )
        x = float(self.left)
        for n, key in enumerate(self.keys):
            shown = key if len(key) <= 24 else key[:23] + "…"
            yield tag(
                "line",
                x1=x,
                x2=x + 22,
                y1=27,
                y2=27,
                kind=f"line s{n % COLOURS}",
                stroke_dasharray=DASHES[n % len(DASHES)],
            )
            yield tag("text", shown, x=x + 27, y=31, kind="key")
            x += 45 + 6.6 * len(shown)


def lines(name: str, series: Sequence[Series], across: Axis, up: Axis, said: Callable[[float, float], str]) -> Markup:
    """Lines over each other. `said`: what somebody reads who points at a place of one."""
    frame = Frame(name, across, up, [one.name for one in series])
    drawn = []
    for n, one in enumerate(series):
        path = "M" + "L".join(f"{frame.x(x)} {frame.y(y)}" for x, y in one.points)
        line = tag("path", d=path, kind=f"line s{n % COLOURS}", stroke_dasharray=DASHES[n % len(DASHES)])
        every = max(1, len(one.points) // POINTS_TO_READ)
        reads = (
            tag("circle", tag("title", f"{one.name}: {said(x, y)}"), cx=frame.x(x), cy=frame.y(y), r=5, kind="read")
            for x, y in one.points[::every]
        )
        drawn.append(tag("g", line, *reads))
    return frame.drawn(*drawn)


def stairs(series: Series) -> Series:
    """Points, with steps between them instead of slopes."""
    points = [series.points[0]]
    for x, y in series.points[1:]:
        points += [(x, points[-1][1]), (x, y)]
    return replace(series, points=points)


def areas(name: str, series: Sequence[Series], across: Axis, up: Axis, said: Callable[[float], str]) -> Markup:
    """One above the other. All series have the same places across."""
    frame = Frame(name, across, up, [])
    floor = [0.0] * len(series[0].points)
    drawn, keys, x = [], [], float(LEFT)
    for n, one in enumerate(series):
        top = [low + y for low, (_, y) in zip(floor, one.points, strict=True)]
        places = [frame.x(at) for at, _ in one.points]
        over = [f"{at} {frame.y(y)}" for at, y in zip(places, top, strict=True)]
        under = [f"{at} {frame.y(y)}" for at, y in zip(places, floor, strict=True)]
        mean = sum(y for _, y in one.points) / len(one.points)
        title = tag("title", f"{one.name}: {said(mean)} on average")
        drawn.append(tag("path", title, d="M" + "L".join([*over, *reversed(under)]) + "Z", kind=f"f{n % COLOURS}"))
        shown = one.name if len(one.name) <= 10 else one.name[:9] + "…"
        keys.append(tag("rect", title, x=x, y=22, width=10, height=10, kind=f"f{n % COLOURS}"))
        keys.append(tag("text", title, shown, x=x + 14, y=31, kind="key"))
        x += 26 + 6.8 * len(shown)
        floor = top
    return frame.drawn(*drawn, *keys)


def dots(
    name: str,
    rows: Sequence[tuple[str, Sequence[float], float | None]],
    keys: Sequence[str],
    said: Callable[[float], str],
) -> Markup:
    """Rows of points on one axis of spans of time: for each what it is, a value for each key, and a bound or none."""
    values = [value for _, found, bound in rows for value in (*found, bound or found[0])]
    across = axes.of_spans(min(values), max(values), "from submission to end, logarithmic")
    up = Axis(0.0, len(rows), tuple((len(rows) - n - 0.5, text) for n, (text, _, _) in enumerate(rows)), "")
    frame = Frame(name, across, up, [], left=70)
    drawn, x = [], 70.0
    for n, key in enumerate(keys):
        drawn.append(tag("path", d=SHAPES[n % len(SHAPES)], transform=f"translate({x + 6} 27)", kind=f"f{n % COLOURS}"))
        drawn.append(tag("text", key, x=x + 17, y=31, kind="key"))
        x += 32 + 6.6 * len(key)
    if any(bound is not None for _, _, bound in rows):
        drawn.append(tag("line", x1=x + 6, x2=x + 6, y1=20, y2=34, kind="bound"))
        drawn.append(tag("text", "bound", x=x + 14, y=31, kind="key"))
    for row, (text, found, bound) in enumerate(rows):
        y = frame.y(len(rows) - row - 0.5)
        if bound is not None:
            title = tag("title", f"{text}, what no scheduler can beat: {said(bound)}")
            drawn.append(tag("line", title, x1=frame.x(bound), x2=frame.x(bound), y1=y - 14, y2=y + 14, kind="bound"))
        for n, value in enumerate(found):
            above = (n - (len(found) - 1) / 2) * min(14.0, 40 / len(found))
            place = f"translate({frame.x(value)} {round(y + above, 1)})"
            title = tag("title", f"{keys[n]}, {text}: {said(value)}")
            drawn.append(tag("path", title, d=SHAPES[n % len(SHAPES)], transform=place, kind=f"f{n % COLOURS}"))
    return frame.drawn(*drawn)


def alone(plot: Markup) -> str:
    """A plot as a file of its own."""
    head, _, rest = plot.partition(">")
    background = tag("rect", width=WIDTH, height=HEIGHT, style="fill:var(--paper)")
    return joined(Markup(f"{head}>"), tag("style", Markup(STYLE)), background, Markup(rest)) + "\n"
