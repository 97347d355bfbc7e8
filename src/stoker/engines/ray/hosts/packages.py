"""What the environment of a node is to hold: the versions of this one, so that a program finds the same there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_ALWAYS: tuple[tuple[str, frozenset[str]], ...] = (("ray", frozenset({"default"})), ("uv", frozenset()))
_OWN = "stoker"


def of_environment(which: str) -> list[str]:
    """`name==version` of each. `which`: `all` that is installed here, or `ray` and what that needs."""
    found = {_key(d.metadata["Name"]): d for d in distributions() if d.metadata["Name"]}
    names = set(found) if which == "all" else set(_closure(found))
    return sorted(f"{name}=={found[name].version}" for name in names if name != _OWN and not _is_of_a_path(found[name]))


def left_out() -> list[str]:
    """What is installed here from a folder or an archive, and is in no index."""
    return sorted(
        _key(d.metadata["Name"]) for d in distributions() if _is_of_a_path(d) and _key(d.metadata["Name"]) != _OWN
    )


def python_version() -> str:
    """Of this environment: `3.11.7`."""
    return ".".join(map(str, sys.version_info[:3]))


def ray_version() -> str:
    """Of Ray here; empty: it is not installed."""
    try:
        return distribution("ray").version
    except PackageNotFoundError:
        return ""


def _closure(found: dict[str, Distribution]) -> Iterator[str]:
    todo = [(name, extras) for name, extras in _ALWAYS if name in found]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        yield name
        todo += [(other, more) for other, more in _needs(found[name], extras) if other in found]


def _needs(one: Distribution, extras: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What it names, whatever the system: what is not installed here was not for this one."""
    for line in one.requires or []:
        requirement, _, marker = line.partition(";")
        asked = set(_EXTRA.findall(marker))
        match = _NAME.match(requirement)
        if match and (not asked or asked & set(extras)):
            yield _key(match[1]), frozenset(filter(None, (word.strip() for word in (match[2] or "").split(","))))


def _is_of_a_path(one: Distribution) -> bool:
    return '"url": "file:' in (one.read_text("direct_url.json") or "").replace('":"', '": "')


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
