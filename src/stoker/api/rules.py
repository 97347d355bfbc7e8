"""Rules of fields that several dialects share. The first line of each docstring is the rule as docs/fields.md tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from stoker.core.errors import TooLarge
from stoker.store.files import FAR

from .translation import SiteRules, Whole, seconds

MOST_PACKAGES = 100
LARGEST_JOB_BYTES = 96 << 10
"""Linux takes 128 KiB for one variable (execve(2), MAX_ARG_STRLEN); the rest is for the addresses of the cluster."""

DISK_TYPES = ("pd-ssd", "pd-standard")
_URI = re.compile(r"(gs|s3)://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/.*)?|/.*", re.DOTALL)


def check_size(body: str) -> None:
    """Refuse a job that is larger than what its programs could be told of it. Raises TooLarge."""
    if len(body) > LARGEST_JOB_BYTES:
        told = f"its programs find it in TF_CONFIG, which can hold {LARGEST_JOB_BYTES >> 10} KiB of it"
        fix = "put long lists of arguments into a file of a bucket"
        raise TooLarge(f"a job of {len(body):,} bytes: {told}", fix=fix)


def a_place(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """`gs://BUCKET/…`, or an absolute path; a lawful bucket name."""
    for uri in [value] if isinstance(value, str) and value else value or []:
        if not _URI.fullmatch(uri):
            rule = "neither gs://BUCKET/… nor an absolute path; a bucket name has 3 to 63 of a-z, 0-9, '-', '_', '.'"
            yield f"{uri[:200]!r} is {rule}"


def a_directory(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """`gs://BUCKET/…`, an absolute path, or where a library of the program's own leads, such as `az://…`."""
    if not (isinstance(value, str) and FAR.fullmatch(value)):
        yield from a_place(value, whole, site)


def packages(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """At most 100, each a readable `gs://BUCKET/…` or absolute path."""
    if value is not None and len(value) > MOST_PACKAGES:
        yield f"{len(value)} packages, of at most {MOST_PACKAGES}"
    else:
        yield from a_place(value, whole, site)


def module_problems(value: Any) -> Iterable[str]:
    """A dotted name, as `python -m` takes it."""
    if value and (
        value.startswith("-") or any(not part or not part.isprintable() or " " in part for part in value.split("."))
    ):
        yield f"{value[:80]!r} is not the name of a module, such as trainer.task"


def some_time(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """Longer than 0s."""
    if value is not None and seconds(value) <= 0:
        yield "must be longer than 0s"


def a_priority(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """From 0 to 1000, greater first."""
    if value is not None and not 0 <= value <= 1000:
        yield f"{value} is not between 0 and 1000"


def a_disk(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """`pd-ssd` or `pd-standard`."""
    if value is not None and value not in DISK_TYPES:
        yield f"{value[:80]!r} is not known: use {' or '.join(DISK_TYPES)}"


def a_disk_size(value: Any, whole: Whole, site: SiteRules) -> Iterable[str]:
    """At least 1."""
    if value is not None and value < 1:
        yield f"{value} GB: a disk has at least 1"
