"""Labels, as every dialect takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.core.errors import Violation
from stoker.core.options import options_of

MOST_LABELS = 64


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
    found, problems = options_of(labels)
    return found, [Violation(f"{path}.{label}", problem) for label, problem in problems.items()]


def _is_label(text: str, shortest: int, longest: int) -> bool:
    return shortest <= len(text) <= longest and all(c.isalnum() or c in "_-" for c in text) and text == text.lower()
