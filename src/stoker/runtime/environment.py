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
from typing import IO, Callable, Dict, Iterator, List, Sequence

from .archive import check_package
from .errors import CannotStart
from .no_links import open_path
from .processes import signal_group
from .sandbox import Sandbox

_PLANNED = re.compile(r"^ \+ ([A-Za-z0-9._-]+)(?:==(\S+)(?: \(from (\S+)\))?| @ (\S+))$")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ATTEMPTS = 2
_LOOK_SECONDS = 0.1


class InstallFailed(CannotStart):
    """A package could not be installed. Says why with the installer's last lines."""


class Installer:
    """Installs packages over one runtime, until it is told to give up."""

    def __init__(
        self, python: str, uv: str, say: Callable[[str], None], give_up: Callable[[], bool], sandbox: Sandbox
    ) -> None:
        self._python = python
        self._uv = uv
        self._say = say
        self._give_up = give_up
        self._sandbox = sandbox
        self._target = ""
        self._readable: List[str] = []  # a source distribution runs code of the user's when it is installed

    def prepare(self, packages: Sequence[str], cache: str) -> str:
        """The folder to put on PYTHONPATH; empty if there are no packages. Raises InstallFailed or BadArchive."""
        if not packages:
            return ""
        what = "\n".join([os.path.abspath(self._python), *self._sandbox.whose, *map(_digest, packages)])
        folder = os.path.join(cache, "environments", hashlib.sha256(what.encode()).hexdigest()[:32])
        done = folder + ".complete"  # beside it: in it, code of the user's could put a link there
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with open(folder + ".lock", "w") as lock:
            self._wait_for(lock)  # of many replicas on one machine one builds, the others wait and find it
            if not os.path.exists(done):
                started = time.monotonic()
                for package in packages:
                    check_package(package)
                self._target, self._readable = folder, sorted({os.path.dirname(package) for package in packages})
                self._sandbox.show(*self._readable, *packages)
                self._install_twice(packages, folder)
                with open(done, "w"):
                    pass
                names = ", ".join(map(os.path.basename, packages))
                self._say(f"installed {names} in {time.monotonic() - started:.1f} s")
        return folder

    def _wait_for(self, lock: IO[str]) -> None:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if self._give_up():
                    raise InstallFailed("stopped while another replica installed the packages") from None
                time.sleep(_LOOK_SECONDS)

    def _install_twice(self, packages: Sequence[str], folder: str) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            self._sandbox.give(folder)
            try:
                for package in packages:
                    self._run([*_build_options(package), "--target", folder, "--no-deps", "--reinstall", package])
                missing = self._missing(folder)
                if missing:
                    self._run(["--target", folder, "--no-deps", *missing])
                return
            except InstallFailed as error:
                if attempt == _ATTEMPTS or self._give_up():
                    raise
                self._say(f"installing failed, trying once more: {error}")

    def _missing(self, folder: str) -> List[str]:
        """What the packages need and neither they nor the runtime have: uv says what that is, given what is there."""
        wanted = sorted(set(_requirements(folder)))
        if not wanted:
            return []
        plan = self._run(["--dry-run", *wanted])
        found = [m for m in map(_PLANNED.match, plan.splitlines()) if m]
        return [f"{m[1]} @ {m[3] or m[4]}" if m[3] or m[4] else f"{m[1]}=={m[2]}" for m in found]

    def _environment(self) -> Dict[str, str]:
        ours = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        return {k: v for k, v in ours.items() if self._sandbox.passes(k) or k.startswith(("UV_", "PIP_", "STOKER_RUN"))}

    def _run(self, arguments: List[str]) -> str:
        """Run `uv pip install`; its messages come on stderr. Raises InstallFailed with the last of them."""
        process = self._sandbox.start(
            lambda mounts, told: self._sandbox.command(
                [self._uv, "pip", "install", "--no-progress", "--python", self._python, *arguments],
                mounts,
                readable=self._readable,
                writable=[self._target],
                told=told,
            ),
            env={**self._environment(), **self._sandbox.variables()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while True:
            try:
                _, errors = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if self._give_up():
                    signal_group(process.pid, 9)
                    process.communicate()
                    raise InstallFailed("stopped while it installed the packages") from None
        if process.returncode != 0:
            last = "\n".join(errors.strip().splitlines()[-12:])
            raise InstallFailed(f"the installer ended with status {process.returncode}:\n{last}")
        return str(errors)


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


def _requirements(folder: str) -> Iterator[str]:
    """What the distributions in a folder need, less themselves and what is for extras."""
    infos = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
    own = {_normal(info.rsplit("-", 1)[0].rsplit("-", 1)[0]) for info in infos}
    for info in infos:
        with open(open_path(os.path.join(folder, info, "METADATA"), to_read=True), encoding="utf-8") as metadata:
            for line in metadata:
                key, _, requirement = line.strip().partition(": ")
                name = _NAME.match(requirement)
                if key == "Requires-Dist" and name and "extra ==" not in requirement and _normal(name[0]) not in own:
                    yield requirement


def _normal(name: str) -> str:
    """A distribution's name as the packaging standard compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
