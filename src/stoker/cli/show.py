"""How things look: tables, colours, errors, exit codes. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import click

from stoker.core.errors import BadSpec, NotReady, StokerError

EXIT_CODES: Mapping[str, int] = {"not_found": 3, "unauthenticated": 4, "forbidden": 4, "unavailable": 5}
REFUSED = 6  # an invalid or impossible request
USAGE = 2
_COLOURS = {"SUCCEEDED": "green", "RUNNING": "cyan", "FAILED": "red", "CANCELLED": "bright_black", "QUEUED": "yellow"}
_REPLICA_COLOURS = ("cyan", "magenta", "blue", "green", "yellow")
_ESCAPE = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"  # SGR
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"  # titles, links, clipboard, device control
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # the cursor, the screen, modes
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
_CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f-\x9f\ud800-\udfff"
    r"\u2028\u2029\u202a-\u202e\u2066-\u2069]"  # other ends of lines; and what turns the reading direction around
)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, leave_out: Sequence[str] | None = None) -> None:
    """Upper-case headers, columns padded to fit, no lines; numbers to the right.

    Where it is wider than the terminal, whole columns are left out: those of `leave_out`, the first first; without it the last
    ones, but never the first two.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headers, *cells, strict=True)]
    dropped = _too_wide(headers, widths, headers[:1:-1] if leave_out is None else leave_out)
    if dropped:
        kept = [n for n, header in enumerate(headers) if header not in dropped]
        table([headers[n] for n in kept], [[row[n] for n in kept] for row in rows], leave_out=())
        note(f"  left out for want of room: {', '.join(header for header in headers if header in dropped)}")
        return
    right = [bool(rows) and all(isinstance(row[n], int | float) for row in rows) for n in range(len(headers))]
    for line in ([*headers], *cells):
        parts = []
        for cell, width, to_the_right in zip(line, widths, right, strict=True):
            blank = " " * (width - _width(cell))
            parts.append(blank + cell if to_the_right else cell + blank)
        say("  ".join(parts).rstrip())


def _too_wide(headers: Sequence[str], widths: Sequence[int], leave_out: Sequence[str]) -> set[str]:
    """The columns without which it fits the terminal; none where the output is not a terminal, or nobody knows how wide it is."""
    is_terminal = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
    room, dropped = shutil.get_terminal_size((0, 0)).columns if is_terminal else 0, set[str]()
    for header in leave_out if room else ():
        kept = [width for name, width in zip(headers, widths, strict=True) if name not in dropped]
        if sum(kept) + 2 * (len(kept) - 1) <= room:
            break
        dropped.add(header)
    return dropped


def say(text: str, *, err: bool = False) -> None:
    """A line of ours. Its colours reach what they were made for: a terminal, or whoever asked for them by FORCE_COLOR."""
    click.echo(text, err=err, color=_wants_colour(err=err))


def safe(text: str) -> str:
    """What somebody else wrote, fit for a terminal: of its escape sequences only colours are left, and they end with it."""
    plain = _ESCAPE.sub(lambda found: found["colour"] or "", text)
    plain = _CONTROL.sub("�", plain)
    return plain + "\x1b[0m" if "\x1b[" in plain else plain


def data(value: Any) -> None:
    """JSON for programs; `schema_version` grows when a field changes its meaning."""
    body = {"schema_version": 1, **value} if isinstance(value, dict) else value
    click.echo(json.dumps(body, indent=2))


def note(text: str) -> None:
    """A message beside the data."""
    for line in text.split("\n"):
        say(safe(line), err=True)


def done(text: str) -> None:
    """A step that is done."""
    note(f"{coloured('✓', 'green', err=True)} {text}")


def progress(text: str) -> None:
    """A step that takes its time."""
    note(f"{coloured('·', 'bright_black', err=True)} {text}")


def warn(text: str) -> None:
    """Something to know."""
    note(f"{coloured('!', 'yellow', err=True)} {text}")


def coloured(text: str, colour: str, *, err: bool = False) -> str:
    """Colour on a terminal, unless NO_COLOR says no; FORCE_COLOR says yes always."""
    return click.style(text, fg=colour) if _wants_colour(err=err) else text


def state(name: str) -> str:
    """A job's state in its colour."""
    return coloured(name, _COLOURS.get(name, "white"))


def replica(name: str, number: int) -> str:
    """A replica's name before its line of output."""
    return coloured(name, _REPLICA_COLOURS[number % len(_REPLICA_COLOURS)])


def ago(seconds: float | None) -> str:
    """How long since a moment: `3m ago`."""
    return f"{duration(time.time() - seconds)} ago" if seconds else ""


def duration(seconds: float) -> str:
    """`4.2s`, `6m12s`, `3h05m`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f}s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m{int(seconds) % 60:02d}s"
    return f"{int(seconds) // 3600}h{int(seconds) % 3600 // 60:02d}m"


def error(problem: StokerError) -> int:
    """What went wrong, why and where, what to do. Returns the exit code."""
    if isinstance(problem, BadSpec | NotReady) and problem.violations:
        count = len(problem.violations)
        what = "refused" if isinstance(problem, NotReady) else "not a valid request"
        _say("error", what if count == 1 else f"{what}: {count} mistakes")
        for violation in problem.violations:
            note(f"  {coloured(violation.field, 'bright_white', err=True)}: {violation.description}")
        _fix(problem.fix)
        return REFUSED
    _say("error", problem.message)
    _fix(problem.fix)
    return EXIT_CODES.get(problem.code, REFUSED if problem.code in ("already_exists", "unimplemented") else 1)


def usage_error(problem: click.UsageError) -> int:
    """A command that was not understood."""
    if type(problem).__name__ == "NoArgsIsHelpError":  # its message is the help
        note(problem.format_message())
        return USAGE
    _say("error", problem.format_message())
    if problem.ctx is not None:
        _fix(f"{problem.ctx.command_path} --help shows how")
    return USAGE


def unexpected(problem: Exception) -> int:
    """What nobody expected: one line, and how to see more."""
    _say("error", f"something went wrong inside Stoker: {type(problem).__name__}: {problem}")
    _fix("STOKER_DEBUG=1 with the same command shows where; please report it")
    return 1


def _say(kind: str, text: str) -> None:
    note(f"{coloured(kind + ':', 'red', err=True)} {text}")


def _fix(text: str) -> None:
    if text:
        note(f"  {coloured('→', 'green', err=True)} {text}")


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:g}" if isinstance(value, float) else safe(str(value)).replace("\t", " ")


def _width(cell: str) -> int:
    """The columns of a terminal that a cell takes."""
    plain = click.unstyle(cell)
    return len(plain) + sum(unicodedata.east_asian_width(c) in "WF" for c in plain)


def _wants_colour(*, err: bool) -> bool:
    stream = sys.stderr if err else sys.stdout
    return bool(os.environ.get("FORCE_COLOR")) or (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    )
