"""How serious a line is: what it says of itself, or else by the stream that it came from. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SEVERITIES: Mapping[str, int] = {
    "DEFAULT": 0,
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "ALERT": 700,
    "EMERGENCY": 800,
}
"""LogSeverity of Cloud Logging, with its numbers."""

_MOST_BRACKETS = 500  # what is nested without end is no message
_MOST_DIGITS = 18
_OF_STREAM = {"out": "INFO", "err": "ERROR", "service": "INFO"}
_OWN_NAMES = {
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "CRITICAL",
    "WARN": "WARNING",
    "FATAL": "CRITICAL",
    "TRACE": "DEBUG",
}

# 2026-11-20 12:00:00.123456: I tensorflow/core/…            TensorFlow, C++
# I1120 12:00:00.123456  123 file.cc:1] …                    glog, absl and gRPC; absl that was not set up says I0000 00:00:1795…
# WARNING:root:…                                             Python's logging, not set up
# WARNING: All log messages before absl::InitializeLog() …   absl, about itself
_OWN_LEVEL = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+: ([IWEF]) "
    r"|([IWEF])(?:\d{4}|\d{8}) \d\d:\d\d:\d\d[\d.]*\s+\d+ [^\s\]]+:\d+\]"
    r"|(DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:[\w.-]+:| All log messages before absl)"
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a line says."""

    severity: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)  # the rest of a line that is JSON


def read_line(stream: str, text: str) -> Said:
    """Understand one line of a program. Blank, odd or cut-off ones are plain text."""
    if text.startswith("{") and text.endswith("}"):
        structured = _structured(stream, text)
        if structured is not None:
            return structured
    own = _OWN_LEVEL.match(text)
    if own is not None and stream != "service":
        name = own[own.lastindex or 0]
        return Said(_OWN_NAMES.get(name, name), text)
    return Said(_OF_STREAM.get(stream, "DEFAULT"), text)


def _structured(stream: str, text: str) -> Said | None:
    """A line that is a JSON object with a `message`, as Google's agents take it; None: it is not."""
    if text.count("{") + text.count("[") > _MOST_BRACKETS:
        return None
    try:
        found = json.loads(text, parse_constant=str, parse_float=_number, parse_int=_number)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("message"), str):
        return None
    message, named = found.pop("message").encode(errors="replace").decode(), found.pop("severity", "")
    name = named.upper() if isinstance(named, str) else ""
    name = _OWN_NAMES.get(name, name)
    return Said(name if name in SEVERITIES else _OF_STREAM.get(stream, "DEFAULT"), message, found)


def _number(text: str) -> int | float | str:
    """A number as every reader of JSON can take it; others, such as a loss that is too large, stay text."""
    if text.lstrip("-").isdecimal():
        return int(text) if len(text) <= _MOST_DIGITS else text
    number = float(text)
    return number if math.isfinite(number) else text
