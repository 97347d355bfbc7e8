"""Lines of a requirements file, as they may reach a machine: what is asked for, and where to look for it. Pure."""

from __future__ import annotations

import re
import shlex

INDEX_OPTIONS = ("--index-url", "-i", "--extra-index-url", "--find-links", "-f", "--no-index", "--pre")
"""The options of a line that pip and uv both know, and that name nothing of the user's own disk."""

MOST_LINES, MOST_CHARACTERS = 5_000, 2_000
VERSION = re.compile(
    r"(cpython-?|python-?)?\d+(\.\d+){0,2}|(~=|[<>=!]=?)\s*\d[\d.*]*(\s*,\s*(~=|[<>=!]=?)\s*\d[\d.*]*)*"
)
"""`3.12`, `>=3.11,<3.13`."""

_LOCAL = re.compile(r"(-e\b|--editable\b|\.{1,2}/|/|~/|file:)|.*@\s*(file:|\.{0,2}/)")


def problem_of(line: str) -> str:
    """What is wrong with a line; empty: nothing, as far as can be told before uv has seen it."""
    if len(line) > MOST_CHARACTERS or any(ord(character) < 32 and character != "\t" for character in line):
        return "is too long, or holds characters that no requirement has"
    if _LOCAL.match(line):
        return "names a path of one machine; name a package of an index, or put the code into the folder"
    if line.startswith("-"):
        option = re.split(r"[\s=]", line, maxsplit=1)[0]
        if option not in INDEX_OPTIONS:
            return f"{option} is not known here; known are {', '.join(INDEX_OPTIONS)}"
    try:
        shlex.split(line)
    except ValueError as error:
        return str(error)
    return ""
