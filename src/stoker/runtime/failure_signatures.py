r"""What a program's last words, and the kernel's, tell of why it failed: the signs of signature_table.py.

Looked at once, when a program has failed, in the last lines that it printed: nothing is matched while it runs.

Of several signs the most causal counts: what the kernel says, then what names a cause, then what is most often only the
effect of a peer's end. Among equals one that stands in the last traceback, then the first of the table.
"""

from __future__ import annotations

import re
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

from .program_signatures import RAISED
from .signature_row import KERNEL, Signature
from .signature_table import SIGNATURES

MOST_LINES = 200
"""So many of the last lines of each stream are looked at."""

MOST_EVIDENCE_CHARACTERS = 500

_LONGEST_LINE_CHARACTERS = 2000
_LAST_WORDS_LINES = 25
_SIGNALS = 128  # an exit code of so much and more, or below 0: a death by a signal
_KILLED = frozenset({-9, -15, 137, 143})
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Found(NamedTuple):
    """The sign that a failure bears, and the line that shows it. Both are empty where none is known."""

    sign: str = ""
    evidence: str = ""


def find_signature(out: Iterable[str], err: Iterable[str], kernel: Sequence[str] = (), *, code: int = 1) -> Found:
    """The sign of a failure. `code`: how it ended, as Python gives it; one that was killed is known by its last words only."""
    for sign in SIGNATURES:
        if sign.rank == KERNEL:
            line = _first(sign, "\n".join(kernel))
            if line is not None:
                return Found(sign.code, plain(line[1]))
    best: Optional[Tuple[int, bool, int, int, str]] = None
    for lines in (list(err), list(out)):
        lines = [_cut(line) for line in lines[-(_LAST_WORDS_LINES if code in _KILLED else MOST_LINES) :]]
        text, last_chain = "\n".join(lines), _last_chain(lines)
        was_raised = last_chain < len(text) or (0 <= code < _SIGNALS)
        for order, sign in enumerate(SIGNATURES):
            if sign.code in RAISED and not was_raised:
                continue
            if sign.rank == KERNEL or (best is not None and sign.rank > best[0]):
                continue
            line = _first(sign, text, last_chain) or _first(sign, text)
            if line is not None:
                found = (sign.rank, line[0] < last_chain, order, line[0], line[1])
                best = found if best is None else min(best, found)
    return Found() if best is None else Found(SIGNATURES[best[2]].code, plain(best[4]))


def plain(line: str) -> str:
    """A line as evidence: without control characters, and cut to size."""
    line = _CONTROL.sub("�", line.strip().replace("\t", " "))
    return line if len(line) <= MOST_EVIDENCE_CHARACTERS else line[: MOST_EVIDENCE_CHARACTERS - 1] + "…"


def _first(sign: Signature, text: str, start: int = 0) -> Optional[Tuple[int, str]]:
    """Where the first line with one of the sign's texts stands, and that line; one of the source only if there is no other."""
    if not text or not sign.texts:
        return None
    of_source = None
    for found in _pattern(sign).finditer(text, start):
        begin = text.rfind("\n", 0, max(found.start(), found.end() - 1)) + 1  # of several lines the last
        end = text.find("\n", found.end())
        line = text[begin : end if end >= 0 else len(text)]
        if not line.lstrip().startswith("raise "):
            return begin, line
        of_source = of_source or (begin, line)
    return of_source


def _pattern(sign: Signature) -> "re.Pattern[str]":
    return re.compile("|".join(f"(?:{text})" for text in sign.texts), re.MULTILINE)


def _cut(line: str) -> str:
    """A line that is not too long to look through: its beginning and its end."""
    half = _LONGEST_LINE_CHARACTERS // 2
    return line if len(line) <= 2 * half else f"{line[:half]} … {line[-half:]}"


def _last_chain(lines: List[str]) -> int:
    """Where in the joined lines the last traceback begins, with those that led to it; behind the end if there is none."""
    place, starts, is_chained = 0, len("\n".join(lines)), False
    for line in lines:
        if "Traceback (most recent call last)" in line:
            starts = starts if is_chained else place
            is_chained = False
        elif any(text in line for text in _CHAINED):
            is_chained = True
        place += len(line) + 1
    return starts
