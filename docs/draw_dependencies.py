"""docs/dependencies.md, from pyproject.toml and what the installed distributions say of themselves."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.markdown import page, table

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
EXTRAS = ("postgresql", "ray", "tensorboard", "demo")
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux", "python_version": "3.12"}


def dependencies() -> str:
    """docs/dependencies.md."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    direct = [Requirement(line) for line in project["dependencies"]]
    mine = {canonicalize_name(requirement.name) for requirement in direct}
    theirs = sorted(set(_beneath(direct)) - mine)
    extras = [
        (extra, Requirement(line).name)
        for extra in EXTRAS
        for line in project["optional-dependencies"][extra]
        if _counts(Requirement(line), "")
    ]
    return page(
        "Dependencies",
        "What a plain installation of Stoker brings along on Linux, and its licences. `make package` writes the versions as a"
        " bill of materials (CycloneDX) beside the wheel, and `constraints.txt` has those that this release was tested with.",
        table(
            ["Package", "Version", "Licence"],
            [[f"`{r.name}`", f"`{r.specifier}`" if str(r.specifier) else "", _licence(r.name)] for r in direct],
        ),
        "## What these need",
        table(["Package", "Licence"], [[f"`{name}`", _licence(name)] for name in theirs]),
        "## Extras",
        "`pip install 'stoker[NAME]'`; what they need in turn is in the bill of materials of an environment that has them.",
        table(["Extra", "Package", "Licence"], [[f"`{extra}`", f"`{name}`", _licence(name)] for extra, name in extras]),
    )


def _beneath(requirements: list[Requirement]) -> Iterator[str]:
    """The names of all that these need, themselves among them."""
    seen: set[tuple[str, str]] = set()
    open_ = [(requirement, extra) for requirement in requirements for extra in ("", *requirement.extras)]
    while open_:
        requirement, extra = open_.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        yield name
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            if _counts(needed, extra):
                open_ += [(needed, more) for more in ("", *needed.extras)]


def _counts(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**LINUX, "extra": extra})


def _licence(name: str) -> str:
    """As the distribution names it: by an SPDX expression, else by its classifiers, else in its own words."""
    found = metadata.metadata(name)
    classified = [c.rpartition(" :: ")[2] for c in found.get_all("Classifier") or () if c.startswith("License :: OSI")]
    said = str(found.get("License") or "").strip().splitlines()
    return str(found.get("License-Expression") or "") or ", ".join(classified) or (said[0] if said else "see its files")
