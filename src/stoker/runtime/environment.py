"""The Python environment of a program: the configured runtime, and on top of it the user's packages.

Packages go into a folder of their own that is put first on PYTHONPATH, as `pip install --user` would; the runtime's
environment is never written to. The folder is named by what is in it (interpreter and packages by content), so the next
job with the same packages, or the next replica on this machine, finds it ready. Order of things: AI Platform Training's
base image (contract, section 3.1): each package without its dependencies, then its dependencies; a failed pair once more.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import time
from typing import Callable, List, Sequence

from .archive import check_package
from .errors import CannotStart

_PLAN = re.compile(r"^ \+ ([A-Za-z0-9._-]+)==(\S+)$")  # the package itself is listed with its path, and does not match
_ATTEMPTS = 2


class InstallFailed(CannotStart):
    """A package could not be installed. Says why with the installer's last lines."""


def prepare(python: str, uv: str, packages: Sequence[str], cache: str, say: Callable[[str], None]) -> str:
    """The folder to put on PYTHONPATH; empty if there are no packages. Raises InstallFailed or BadArchive."""
    if not packages:
        return ""
    key = hashlib.sha256("\n".join([os.path.realpath(python), *map(_digest, packages)]).encode()).hexdigest()[:32]
    folder = os.path.join(cache, "environments", key)
    done = os.path.join(folder, ".complete")
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of many replicas on one machine one builds, the others wait and find it
        if not os.path.exists(done):
            shutil.rmtree(folder, ignore_errors=True)
            started = time.monotonic()
            for package in packages:
                check_package(package)
                _install(python, uv, package, folder, say)
            with open(done, "w"):
                pass
            names = ", ".join(map(os.path.basename, packages))
            say(f"installed {names} in {time.monotonic() - started:.1f} s")
    return folder


def _install(python: str, uv: str, package: str, folder: str, say: Callable[[str], None]) -> None:
    before = _distributions(folder)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _uv(
                uv,
                "install",
                python,
                [*_build_options(package), "--target", folder, "--no-deps", "--reinstall", package],
            )
            new = _distributions(folder) - before
            if any(_has_requirements(folder, name) for name in new):
                _install_dependencies(python, uv, package, folder)
            return
        except InstallFailed as error:
            if attempt == _ATTEMPTS:
                raise
            say(f"installing {os.path.basename(package)} failed, trying once more: {error}")


def _install_dependencies(python: str, uv: str, package: str, folder: str) -> None:
    """Install what the runtime's environment lacks, next to the package: uv says what that is, given what is there."""
    plan = _uv(uv, "install", python, [*_build_options(package), "--dry-run", package])
    missing = [f"{m[1]}=={m[2]}" for m in map(_PLAN.match, plan.splitlines()) if m]
    if missing:
        _uv(uv, "install", python, ["--target", folder, "--no-deps", *missing])


def _uv(uv: str, verb: str, python: str, arguments: List[str]) -> str:
    """Run uv; its messages come on stderr. Raises InstallFailed with the last of them."""
    environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    command = [uv, "pip", verb, "--no-progress", "--python", python, *arguments]
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        last = "\n".join(result.stderr.strip().splitlines()[-12:])
        raise InstallFailed(f"the installer ended with status {result.returncode}:\n{last}")
    return result.stderr


def _build_options(package: str) -> List[str]:
    """An sdist that names no build system is built with the runtime's own setuptools, so that it needs no network."""
    if package.endswith(".whl"):
        return []
    try:
        with tarfile.open(package) as tar:
            if any(name.count("/") == 1 and name.endswith("/pyproject.toml") for name in tar.getnames()):
                return []
    except tarfile.TarError:
        return []
    return ["--no-build-isolation"]


def _distributions(folder: str) -> "set[str]":
    if not os.path.isdir(folder):
        return set()
    return {name for name in os.listdir(folder) if name.endswith(".dist-info")}


def _has_requirements(folder: str, distribution: str) -> bool:
    with open(os.path.join(folder, distribution, "METADATA"), encoding="utf-8") as metadata:
        return any(line.startswith("Requires-Dist:") for line in metadata)


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
