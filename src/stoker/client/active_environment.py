"""The active virtual or conda environment, and what another machine has to install to have the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.core.errors import BadSpec, Violation
from stoker.core.requirements import problem_of

_KINDS = (("VIRTUAL_ENV", "the active environment"), ("CONDA_PREFIX", "the active conda environment"))
_LIST = """
import json, sys
from importlib.metadata import distributions
found = [[one.metadata["Name"], one.version, one.read_text("INSTALLER"), one.read_text("direct_url.json")]
         for one in distributions()]
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "packages": found}))
"""
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ActiveEnvironment:
    """The environment of the shell."""

    python: str  # the whole path of its interpreter
    title: str  # "the active environment /home/ada/env"


@dataclass(frozen=True, slots=True)
class Installed:
    """What an environment has, as requirements."""

    python: str  # its version, such as 3.11
    requirements: tuple[str, ...]
    left_out: tuple[str, ...]  # packages that only this machine has


def find_active_environment(variables: Mapping[str, str]) -> ActiveEnvironment | None:
    """The one that `activate` has set, unless it is the one that Stoker itself runs in."""
    for name, kind in _KINDS:
        home = variables.get(name, "")
        python = os.path.join(home, "bin", "python")
        if home and os.path.exists(python) and os.path.realpath(home) != os.path.realpath(sys.prefix):
            return ActiveEnvironment(os.path.abspath(python), f"{kind} {home}")
    return None


def read_installed(python: str) -> Installed:
    """What the environment of an interpreter has installed. Raises BadSpec where the interpreter cannot say."""
    try:
        done = subprocess.run([python, "-I", "-c", _LIST], capture_output=True, text=True, timeout=_SECONDS, cwd="/")
        told = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        raise BadSpec(
            [Violation("environment", f"{python} cannot list its packages")],
            fix="`--python stoker` runs on Stoker's own Python; `deactivate` leaves the environment",
        ) from None
    lines, left_out = dict[str, str](), dict[str, str]()
    for name, version, installer, origin in told["packages"]:
        line = requirement_of(name, version, installer or "", json.loads(origin or "{}")) if name and version else ""
        if name and normal_name(name) not in (*lines, *left_out):  # the first on the path is the one that is imported
            (lines if line else left_out)[normal_name(name)] = line or name
    return Installed(told["python"], tuple(sorted(lines.values(), key=str.lower)), tuple(sorted(left_out.values())))


def requirement_of(name: str, version: str, installer: str, origin: Mapping[str, object]) -> str:
    """The line that installs the same package elsewhere; empty for one that came from a path of this machine.

    `origin`: direct_url.json, as the standard "Recording the Direct URL Origin" has it. Conda leaves there where it was built. A
    local version, such as `+cu121`, is left to the index: `==2.1.0` fits `2.1.0+cu121`, and most indexes have only the former.
    """
    url, source = str(origin.get("url", "")), origin.get("vcs_info")
    if isinstance(source, dict):
        line = f"{name} @ {source.get('vcs', 'git')}+{url}@{source.get('commit_id', '')}"
    elif url and installer.strip() != "conda":
        line = f"{name} @ {url}"
    else:
        line = f"{name}=={version.partition('+')[0]}"
    return "" if problem_of(line) else line


def normal_name(name: str) -> str:
    """A package's name as the packaging standard compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
