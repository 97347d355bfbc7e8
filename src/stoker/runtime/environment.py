"""The Python environment of a program: an interpreter, and on top of it the user's packages.

The interpreter is the configured runtime's, one of the user's, or of an empty environment for the version that was asked for.

Packages go into a folder of their own that is put first on PYTHONPATH, as `pip install --user` would; the runtime's
environment is never written to. The folder is named by what is in it (interpreter and packages by content), so the next
job with the same packages, or the next replica on this machine, finds it ready. Order of things: AI Platform Training's
base image (contract, section 3.1): each package without its dependencies, then its dependencies; a failed pair once more.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import time
from contextlib import contextmanager
from typing import IO, Callable, Dict, Iterator, List, Sequence

from .archive import check_package
from .errors import CannotStart
from .interpreters import homes_of
from .no_links import open_path
from .processes import signal_group
from .sandbox import Sandbox

_PLANNED = re.compile(r"^ \+ ([A-Za-z0-9._-]+)(?:==(\S+)(?: \(from (\S+)\))?| @ (\S+))$")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ATTEMPTS = 2
_NO_SOLUTION = "No solution found"
_ADVICE = (
    "no set of packages fits: ask for other versions in the requirements, or for another Python by --python VERSION"
)
_LOOK_SECONDS = 0.1
_MOST_NAMES = 12  # that are said


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
        self.base: List[str] = []  # of the interpreter, where we have made it
        self._beneath: List[str] = []  # where that comes from

    def make_interpreter(self, version: str, cache: str) -> str:
        """The interpreter of an environment for this version of Python that holds nothing; what follows is installed over it.

        Raises InstallFailed where uv finds no such Python.
        """
        found = _Made(cache, "python", [version, *self._sandbox.whose])
        with found.locked(self._wait_for):
            if not found.is_done():
                started = time.monotonic()
                self._target = found.folder
                self._begin_anew(found.folder)
                here = self._find(version)
                self._readable = list(homes_of(here)) if here else []
                self._run(["venv", "--no-project", "--python", here or version, found.folder])
                found.finish()
                self._say(f"made an environment for Python {version} in {time.monotonic() - started:.1f} s")
        self._python = os.path.join(found.folder, "bin", "python")
        self.base = [found.folder]
        self._beneath = list(homes_of(self._python))
        return self._python

    def _find(self, version: str) -> str:
        """An interpreter of this machine; empty if there is none. Looked for outside of the sandbox, which hides most of them."""
        command = [self._uv, "python", "find", "--no-project", version]
        found = subprocess.run(command, cwd="/", env=self._environment(), capture_output=True, text=True)
        return found.stdout.strip() if found.returncode == 0 else ""

    def prepare(self, packages: Sequence[str], cache: str, requirements: Sequence[str] = ()) -> str:
        """The folder to put on PYTHONPATH; empty if there are neither packages nor requirements.

        `requirements`: lines of a requirements file; what the interpreter has already, and fits, is not installed again.
        Raises InstallFailed or BadArchive.
        """
        if not packages and not requirements:
            return ""
        what = [os.path.abspath(self._python), *_stamps(self._python), *self._sandbox.whose, *requirements]
        found = _Made(cache, "", [*what, *map(_digest, packages)])
        with found.locked(self._wait_for):
            if not found.is_done():
                started = time.monotonic()
                for package in packages:
                    check_package(package)
                self._target, self._readable = found.folder, sorted({os.path.dirname(package) for package in packages})
                self._sandbox.show(*self._readable, *packages)
                file = found.folder + ".requirements"
                with open(file, "w", encoding="utf-8") as lines:
                    lines.write("".join(f"{line}\n" for line in requirements))
                os.chmod(file, 0o644)  # read as the user that programs run as
                self._readable += [*self._beneath, *self.base, file]
                new = self._install_twice(packages, found.folder, file if requirements else "")
                found.finish()
                if packages or new:
                    names = [*map(os.path.basename, packages), *new]
                    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
                    self._say(f"installed {', '.join(names[:_MOST_NAMES])}{more} in {time.monotonic() - started:.1f} s")
        return found.folder

    def _wait_for(self, lock: IO[str]) -> None:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if self._give_up():
                    raise InstallFailed("stopped while another replica installed the packages") from None
                time.sleep(_LOOK_SECONDS)

    def _begin_anew(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self._sandbox.give(folder)

    def _install_twice(self, packages: Sequence[str], folder: str, requirements_file: str) -> List[str]:
        """Install everything; returns what of the requirements was not there."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._begin_anew(folder)
            try:
                new = self._install_requirements(folder, requirements_file) if requirements_file else []
                for package in packages:
                    options = [] if self.base else _build_options(package)  # an empty environment has no setuptools
                    self._pip([*options, "--target", folder, "--no-deps", "--reinstall", package])
                missing = self._missing(folder) if packages else []
                if missing:
                    self._pip(["--target", folder, "--no-deps", *missing])
                return new
            except InstallFailed as error:
                if attempt == _ATTEMPTS or self._give_up():
                    raise InstallFailed(f"{error}\n{_ADVICE}") if _NO_SOLUTION in str(error) else error from None
                self._say(f"installing failed, trying once more: {error}")
        raise AssertionError

    def _install_requirements(self, folder: str, file: str) -> List[str]:
        with open(file, encoding="utf-8") as lines:
            text = lines.read()
        if "--hash" in text:  # all are pinned then, and checked as they are installed
            self._pip(["--target", folder, "--no-deps", "-r", file])
            return [line.split()[0] for line in text.splitlines() if line and not line.startswith("-")]
        missing = _planned(self._pip(["--dry-run", "-r", file]))
        if missing:
            options = [word for line in text.splitlines() if line.startswith("-") for word in shlex.split(line)]
            self._pip(["--target", folder, "--no-deps", *options, *missing])
        return missing

    def _missing(self, folder: str) -> List[str]:
        """What the packages need and neither they nor the runtime have: uv says what that is, given what is there."""
        wanted = sorted(set(_requirements(folder)))
        if not wanted:
            return []
        return _planned(self._pip(["--dry-run", *wanted]))

    def _environment(self) -> Dict[str, str]:
        ours = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        return {k: v for k, v in ours.items() if self._sandbox.passes(k) or k.startswith(("UV_", "PIP_", "STOKER_RUN"))}

    def _pip(self, arguments: List[str]) -> str:
        return self._run(["pip", "install", "--no-progress", "--python", self._python, *arguments])

    def _run(self, arguments: List[str]) -> str:
        """Run uv; its messages come on stderr. Raises InstallFailed with the last of them."""
        process = self._sandbox.start(
            lambda mounts, told: self._sandbox.command(
                [self._uv, *arguments],
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
            lines = [line for line in errors.strip().splitlines() if not line.startswith("hint: uv embeds")][-12:]
            causes = [n for n, line in enumerate(lines) if line.strip().startswith(("cause: ", "error: "))]
            told = " ".join(line.strip() for line in lines[causes[-1] :]) if causes else ""
            why = f" {told.partition(': ')[2]}" if told else ""
            raise InstallFailed("\n".join([f"the installer ended with status {process.returncode}:{why}", *lines]))
        return str(errors)


class _Made:
    """A folder that is named by what is in it, and is complete or not there."""

    def __init__(self, cache: str, kind: str, what: Sequence[str]) -> None:
        digest = hashlib.sha256("\n".join([*filter(None, [kind]), *what]).encode()).hexdigest()[:32]
        self.folder = os.path.join(cache, "environments", digest)
        self._done = self.folder + ".complete"  # beside it: in it, code of the user's could put a link there
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)

    @contextmanager
    def locked(self, wait_for: Callable[[IO[str]], None]) -> Iterator[None]:
        """Of many replicas on one machine one builds, the others wait and find it."""
        with open(self.folder + ".lock", "w") as lock:
            wait_for(lock)
            yield

    def is_done(self) -> bool:
        """Whether it is complete."""
        return os.path.exists(self._done)

    def finish(self) -> None:
        """It is complete."""
        with open(self._done, "w"):
            pass


def _planned(plan: str) -> List[str]:
    """What uv would install, each as a requirement of just that."""
    found = [m for m in map(_PLANNED.match, plan.splitlines()) if m]
    return [f"{m[1]} @ {m[3] or m[4]}" if m[3] or m[4] else f"{m[1]}=={m[2]}" for m in found]


def _stamps(python: str) -> List[str]:
    """When something was last installed beside an interpreter or removed there: then what is missing may be something else."""
    found = glob.glob(os.path.join(os.path.dirname(os.path.dirname(python)), "lib", "python*", "site-packages"))
    return [str(os.stat(folder).st_mtime_ns) for folder in sorted(found)]


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
