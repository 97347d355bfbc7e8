"""What `stoker top` shows, printed once: for pipes, and for terminals that are none."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from stoker.cli import show

from .board import Screen, board, summary
from .line import STYLES, Line, plain
from .recent import Recent

_WIDE = 160
"""So wide it is where nobody says how much room there is."""


def print_once(overview: Mapping[str, Any], url: str) -> None:
    """Print it, as wide as the terminal is."""
    width = _width()
    recent = Recent()
    recent.take(overview)
    clock = time.strftime("%H:%M:%S", time.localtime(overview["at"]))
    shown = board(Screen(overview=overview, recent=recent), width)
    for line in (*summary(overview, plain(url), clock, width), Line(), *shown.head, *shown.lines):
        show.say(_styled(line))


def is_screen() -> bool:
    """Whether there is a terminal that can be drawn on. Textual reads from one, and writes to stderr."""
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    return os.environ.get("TERM", "dumb") not in ("dumb", "") and all(s is not None and s.isatty() for s in streams)


def _width() -> int:
    if os.environ.get("COLUMNS", "").isdecimal() or (sys.stdout is not None and sys.stdout.isatty()):
        return max(20, shutil.get_terminal_size((_WIDE, 24)).columns)
    return _WIDE


def _styled(line: Line) -> str:
    spans = list(line.spans)
    while spans and not spans[-1][0].strip():
        spans.pop()
    if spans:
        spans[-1] = (spans[-1][0].rstrip(), spans[-1][1])
    return "".join(_coloured(text, STYLES.get(style, "")) for text, style in spans)


def _coloured(text: str, style: str) -> str:
    if not style or not text.strip():
        return text
    return click.style(text, bold=True) if style == "bold" else click.style(text, fg=style)
