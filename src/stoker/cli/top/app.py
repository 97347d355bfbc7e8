"""The full screen of `stoker top`, by Textual: a head that stays, lines that scroll, and the keys."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from .board import SORTS, Board, Screen, board, summary
from .line import STYLES, Line, plain
from .recent import Recent
from .source import Job, Look, Poller

SECONDS = 2.0
"""From one look to the next."""

_STYLES = {name: Style.parse(style) for name, style in STYLES.items()} | {"": Style()}
_CHOSEN = Style(reverse=True)
_LOW = 10  # lines; a screen with fewer has no room for headings
_KEYS: Sequence[tuple[str, str]] = (
    ("q", "quit"),
    ("↑ ↓  j k", "choose a line; page up, page down, home and end as well"),
    ("tab", "to the jobs, and back to the machines"),
    ("enter", "one job alone, with how it trains, and its GPUs; on a machine, that machine alone"),
    ("esc", "back to everything"),
    ("s", f"sort GPUs by {', '.join(SORTS)}"),
    ("?", "these keys"),
)
_NOTES = (
    "BUSY is the part of the time in which anything ran on a GPU, SM the part of it that worked.",
    "A bar is the mean of 5 seconds, a full one 100 %. docs/monitoring.md says what to make of the numbers.",
)
_KEYS_WIDTH = 11


def _help(width: int) -> list[Line]:
    """The keys, and what the numbers are."""
    lines: list[Line] = []
    for keys, text in _KEYS:
        for n, part in enumerate(wrap(text, max(20, width - _KEYS_WIDTH - 1))):
            lines.append(Line(((f" {'' if n else keys:<{_KEYS_WIDTH - 1}} ", "head"), (part, ""))))
    for note in _NOTES:
        lines += [Line(), *(Line(((f" {part}", "dim"),)) for part in wrap(note, max(20, width - 1)))]
    return lines


def strip_of(line: Line, width: int, *, is_chosen: bool = False) -> Strip:
    """A line as Textual draws it, exactly so wide."""
    found = Strip([Segment(text, _CHOSEN if is_chosen else _STYLES[style]) for text, style in line.spans if text])
    return found.adjust_cell_length(width, _CHOSEN if is_chosen else None)


class Lines(Widget):
    """Some lines that stay where they are."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = []

    def show(self, lines: Sequence[Line]) -> None:
        """Show these."""
        if lines != self._lines:
            self._lines = lines
            self.styles.height = len(lines)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of them."""
        return strip_of(self._lines[y] if y < len(self._lines) else Line(), self.size.width)


class Scrolled(ScrollView, can_focus=True):
    """Lines that scroll, one of which is chosen. Only those that are seen are drawn."""

    def __init__(self) -> None:
        super().__init__(id="board")
        self._lines: Sequence[Line] = []
        self._chosen = 0

    @property
    def chosen(self) -> Line:
        """The chosen line; an empty one if there is none."""
        return self._lines[self._chosen] if self._chosen < len(self._lines) else Line()

    def show(self, lines: Sequence[Line]) -> None:
        """Show these; what was chosen stays chosen, wherever it is now."""
        about = self.chosen.about
        self._lines = lines
        self.virtual_size = Size(self.size.width, len(lines))
        same = [n for n, line in enumerate(lines) if about and line.about == about]
        self._chosen = same[0] if same else min(self._chosen, max(0, len(lines) - 1))
        self.choose(0)
        self.refresh()

    def choose(self, step: int, *, is_far: bool = False) -> None:
        """Choose another line: so many up or down, past those that are about nothing. Where none is left, the last one stays."""
        places = [n for n, line in enumerate(self._lines) if line.about]
        if not places:
            self.scroll_to(y=self.scroll_y + step, animate=False)
            return
        if is_far or step == 0:
            wanted = self._chosen + step
            self._chosen = min(places, key=lambda n: (abs(n - wanted), n))
        else:
            beyond = [n for n in places if (n > self._chosen if step > 0 else n < self._chosen)]
            self._chosen = (beyond[0] if step > 0 else beyond[-1]) if beyond else self._chosen
        top, height = round(self.scroll_y), max(1, self.size.height)
        above = 0 if self._chosen == places[0] else self._chosen  # what stands before the first line is seen with it
        if above < top:
            self.scroll_to(y=above, animate=False)
        elif self._chosen >= top + height:
            self.scroll_to(y=self._chosen - height + 1, animate=False)
        self.refresh()

    def jump(self) -> None:
        """Choose the first job; from there, the first line of all."""
        jobs = [n for n, line in enumerate(self._lines) if line.about[:1] == ("job",)]
        self.choose((jobs[0] if jobs and self._chosen < jobs[0] else 0) - self._chosen, is_far=True)

    def render_line(self, y: int) -> Strip:
        """One of those that are seen."""
        n = y + round(self.scroll_y)
        line = self._lines[n] if n < len(self._lines) else Line()
        return strip_of(line, self.size.width, is_chosen=n == self._chosen and bool(line.about))


class Looked(Message):
    """A look has come in."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look


class Top(App[None]):
    """The application."""

    CSS = """
    Screen { layout: vertical; }
    #head, #foot { width: 100%; height: auto; }
    #board { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden; }
    #board:focus { border: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", "suspend"),
        Binding("j,down", "choose(1)", priority=True),
        Binding("k,up", "choose(-1)", priority=True),
        Binding("pagedown,ctrl+d,space", "page(1)", priority=True),
        Binding("pageup,ctrl+u", "page(-1)", priority=True),
        Binding("home,g", "far(-1)", priority=True),
        Binding("end,G", "far(1)", priority=True),
        Binding("tab,shift+tab", "jump", priority=True),
        Binding("enter", "open", priority=True),
        Binding("escape,backspace,left,h", "everything", priority=True),
        Binding("s", "sort"),
        Binding("question_mark,f1", "help"),
    ]

    def __init__(
        self,
        overview: Any,
        look: Callable[[Job | None], Look],
        url: Callable[[], str],
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`overview`: a first one, with the last minutes. `look`: one more, in a thread. `url`: where the server is by now.

        `clock`: another one, for tests and pictures.
        """
        super().__init__(ansi_color=True)
        self._overview, self._steps = overview, None
        self._url, self._clock = url, clock
        self._recent = Recent()
        self._recent.take(overview)
        self._poller = Poller(look, self._tell, seconds)
        self._problem, self._away_since = "", 0.0
        self._about: tuple[str, ...] = ()
        self._sort = SORTS[0]
        self._is_help = False
        self._columns: Sequence[Line] = []
        self._head, self._scrolled, self._feet = Lines("head"), Scrolled(), Lines("foot")
        self.failure: Exception | None = None
        """What went wrong inside, and has ended it."""

    def compose(self) -> ComposeResult:
        """A head, the lines, and a foot."""
        with Vertical():
            yield self._head
            yield self._scrolled
            yield self._feet

    def on_mount(self) -> None:
        """Begin to look, and end well when it is asked to end."""
        self._scrolled.focus()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
            except (ValueError, RuntimeError):  # not in a program's first thread, where nobody sends it
                break
        self._poller.start()
        self.set_interval(1.0, lambda: self._try(self._draw_head))

    def on_unmount(self) -> None:
        """Look no more."""
        self._poller.end()

    def on_resize(self, event: events.Resize) -> None:
        """Draw it as wide as there is room."""
        self.call_after_refresh(self._draw)

    def on_looked(self, message: Looked) -> None:
        """Show what a look has shown; of a server that is away, the last that it showed."""
        look = message.look
        if look.overview is None:
            self._away_since = self._away_since or self._clock()
            self._problem = look.problem
        else:
            self._overview = look.overview
            self._steps = look.steps if look.job == self._job else None  # another one may have been chosen meanwhile
            self._problem, self._away_since = "", 0.0
            self._try(lambda: self._recent.take(look.overview))
        self._draw()

    def action_choose(self, step: int) -> None:
        """Choose the next line, or the one before."""
        self._scrolled.choose(step)

    def action_page(self, step: int) -> None:
        """Choose a line a page away."""
        self._scrolled.choose(step * max(1, self._scrolled.size.height - 1), is_far=True)

    def action_far(self, step: int) -> None:
        """Choose the first or the last line."""
        self._scrolled.choose(step * 1_000_000, is_far=True)

    def action_jump(self) -> None:
        """To the jobs, or back."""
        self._scrolled.jump()

    def action_open(self) -> None:
        """Show alone what the chosen line is about."""
        about = self._scrolled.chosen.about
        if about[:1] == ("gpu",):
            about = ("job", *about[2:]) if len(about) > 2 else ()
        if about:
            self._show_alone(about)

    def action_everything(self) -> None:
        """Show everything."""
        self._show_alone(())

    def action_sort(self) -> None:
        """Sort by the next number."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._draw()
        self.action_far(-1)

    def action_help(self) -> None:
        """Show the keys, or no longer."""
        self._is_help = not self._is_help
        self._draw()

    def _tell(self, look: Look) -> None:
        """From the thread that looks."""
        self.post_message(Looked(look))

    def _show_alone(self, about: tuple[str, ...]) -> None:
        self._is_help = False
        if about != self._about:
            self._about, self._steps = about, None
            self._poller.ask_about(self._job)
        self._draw()

    @property
    def _job(self) -> Job | None:
        """The job that is shown alone."""
        return (self._about[1], self._about[2]) if self._about[:1] == ("job",) else None

    def _draw(self) -> None:
        if self._scrolled.is_attached:  # else not yet, or no longer
            self._try(self._draw_all)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # Textual would print pages about it
            self.failure = error
            self.exit()

    def _draw_all(self) -> None:
        width = max(1, self.size.width - 1)  # one for the scroll bar
        screen = Screen(
            overview=self._overview, recent=self._recent, steps=self._steps, about=self._about, sort=self._sort
        )
        shown = Board(lines=_help(width)) if self._is_help else board(screen, width)
        self._columns = shown.head
        self._draw_head()
        self._scrolled.show(shown.lines)

    def _draw_head(self) -> None:
        width = max(1, self.size.width - 1)
        clock = time.strftime("%H:%M:%S", time.localtime(self._clock()))
        lines = summary(self._overview, plain(self._url()), clock, width)
        if self._problem:
            away = self._clock() - self._away_since
            lines.insert(1, Line(((f"! away for {away:.0f} s, asked again: {plain(self._problem)}", "bad"),)))
        is_low = self.size.height < _LOW
        self._head.show(lines[: 2 if self._problem else 1] if is_low else [*lines, Line(), *self._columns])
        self._feet.show([self._foot()])

    def _foot(self) -> Line:
        keys = [("q", "quit"), ("?", "keys")]
        keys += [("esc", "back")] if self._about or self._is_help else [("enter", "one job"), ("tab", "jobs")]
        spans = [span for key, text in keys for span in ((f" {key} ", "head"), (f"{text} ", "dim"))]
        return Line((*spans, (" s ", "head"), (f"sorted by {self._sort}", "dim")))
