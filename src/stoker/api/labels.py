"""Labels, as every dialect takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.core.durations import checkpoints_of, seconds_of
from stoker.core.errors import Violation
from stoker.core.job import RESUMABLE
from stoker.core.spec import DISTRIBUTES, LEARNING_RATE_RULES, PRECISIONS, JobSpec, Retry

MOST_LABELS = 64
QUEUE = "stoker-queue"
CHECKPOINTS = "stoker-checkpoints"
_DURATIONS = {"stoker-hang-timeout": "hang_seconds", "stoker-hold-on-failure": "hold_seconds"}
LONGEST_HOLD_SECONDS = 7 * 86400.0
MAX_RETRIES = "stoker-max-retries"
_MOST_RETRIES = 1000
_CHOICES = {
    "stoker-distribute": ("distribute", DISTRIBUTES),
    "stoker-precision": ("precision", PRECISIONS),
    "stoker-learning-rate-rule": ("learning_rate_rule", LEARNING_RATE_RULES),
}
_SWITCHES = {"stoker-preemptible": "preemptible", RESUMABLE: "resumable"}


def label_violations(labels: Mapping[str, str], *, path: str = "job.labels", longest: int = 63) -> list[Violation]:
    """What is wrong with labels (contract 1.1; on Vertex they may have 64 characters)."""
    if len(labels) > MOST_LABELS:
        return [Violation(path, f"{len(labels)} labels, of at most {MOST_LABELS}")]
    found = []
    for key, value in labels.items():
        if not _is_label(key, 1, longest) or not key[0].isalpha():
            rule = f"a key is 1 to {longest} lower-case letters, digits, '_' and '-', and starts with a letter"
            found.append(Violation(f"{path}.{key[:80]}", f"{key[:80]!r}: {rule}"))
        elif not _is_label(value, 0, longest):
            rule = f"a value is at most {longest} lower-case letters, digits, '_' and '-'"
            found.append(Violation(f"{path}.{key}", f"{value[:80]!r}: {rule}"))
    return found


def asked_by_labels(labels: Mapping[str, str], *, path: str = "job.labels") -> tuple[dict[str, Any], list[Violation]]:
    """What labels ask for, for which foreign messages have no field, and what is wrong with them.

    They are read at submission alone, and stay labels; whether a job is resumable may be changed by its label later.
    """
    found: dict[str, Any] = {"queue": labels[QUEUE]} if labels.get(QUEUE) else {}
    violations = []
    for label, name in _SWITCHES.items():
        value = labels.get(label)
        if value in ("true", "false"):
            found[name] = value == "true"
        elif value is not None:
            violations.append(Violation(f"{path}.{label}", f"{value[:80]!r} is neither true nor false"))
    for label, (name, choices) in _CHOICES.items():
        value = labels.get(label)
        if value in choices:
            found[name] = value
        elif value is not None:
            violations.append(Violation(f"{path}.{label}", f"{value[:80]!r} is none of {', '.join(choices)}"))
    if labels.get(CHECKPOINTS):
        try:
            found["checkpoints"] = checkpoints_of(labels[CHECKPOINTS])
        except ValueError as error:
            violations.append(Violation(f"{path}.{CHECKPOINTS}", str(error)))
    for label, name in _DURATIONS.items():
        try:
            if label in labels:
                found[name] = seconds_of(labels[label])
        except ValueError as error:
            violations.append(Violation(f"{path}.{label}", str(error)))
    retries = labels.get(MAX_RETRIES, "")
    if retries.isdecimal() and retries.isascii() and int(retries) <= _MOST_RETRIES:
        found["retry"] = Retry.counted(int(retries))
    elif MAX_RETRIES in labels:
        violations.append(
            Violation(f"{path}.{MAX_RETRIES}", f"{retries[:80]!r} is no number from 0 to {_MOST_RETRIES}")
        )
    if found.get("hold_seconds", 0.0) > LONGEST_HOLD_SECONDS:
        violations.append(Violation(f"{path}.stoker-hold-on-failure", "a place is kept for seven days at most: 7d"))
    return found, violations


def with_labels(spec: JobSpec, asked: Mapping[str, Any]) -> JobSpec:
    """The spec with what labels ask for."""
    limits = {name: asked[name] for name in _DURATIONS.values() if name in asked}
    program = {name: asked[name] for name in (*(name for name, _ in _CHOICES.values()), "checkpoints") if name in asked}
    rest = {name: value for name, value in asked.items() if name not in limits and name not in program}
    return replace(spec, limits=replace(spec.limits, **limits), program=replace(spec.program, **program), **rest)


def _is_label(text: str, shortest: int, longest: int) -> bool:
    return shortest <= len(text) <= longest and all(c.isalnum() or c in "_-" for c in text) and text == text.lower()
