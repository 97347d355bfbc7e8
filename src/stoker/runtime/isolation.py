"""What this machine can do to keep programs apart, found by trying it: bubblewrap for level 1, users of their own for level 2.

The server asks for its own machine; on the nodes of a cluster each supervisor asks for its own (`find_here`).
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .errors import CannotStart
from .folder import Folder
from .no_links import give_to, open_folder
from .sandbox import Sandbox
from .umask import opened

FIRST_USER = 20_000
_TRY_SECONDS = 10.0


class Lack(NamedTuple):
    """What a level needs that is not here, and what to do about it."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what} ({self.fix})"


class Bubblewrap(NamedTuple):
    """The one of this machine, and what is missing for it to serve."""

    path: str = ""
    version: str = ""
    lack: Optional[Lack] = None


def sandbox_words(level: int, home: str, bwrap: str, setpriv: str, owner: str = "", **more: Any) -> Dict[str, Any]:
    """What a request says of a sandbox on this machine. `home`: Stoker's own folder, hidden but for what is the replica's."""
    return {
        "level": level,
        "bwrap": bwrap,
        "setpriv": setpriv,
        "stoker_home": home,
        "user_home": user_home(),
        "own_home": os.path.join(os.path.realpath(home), "job-homes", owner or "anybody"),
        "folders": [],
        "own_folders": [],
        "inherit": [],
        "owner": owner,
        "tmp_bytes": 0,
        **more,
    }


def find_bubblewrap(home: str) -> Bubblewrap:
    """bubblewrap, tried."""
    if not sys.platform.startswith("linux"):
        return Bubblewrap(lack=Lack("Linux", "run the server there"))
    found = shutil.which("bwrap")
    if found is None:
        return Bubblewrap(lack=Lack("bubblewrap, which is not installed", "apt install bubblewrap"))
    version = _said([found, "--version"]).rpartition(" ")[2].strip()
    problem = _try(sandbox_words(1, home, found, ""))
    if problem and version and "--bind-fd" not in _said([found, "--help"]):
        fix = "apt update && apt install bubblewrap: Debian 12, Ubuntu 24.04 and later have one"
        lack = Lack(f"a bubblewrap that knows --bind-fd (0.10, or 0.8 of Debian 12), not {version}", fix)
        return Bubblewrap(found, version, lack)
    if problem:
        fix = "let users make namespaces, and run the server outside a container"
        return Bubblewrap(found, version, Lack(f"bubblewrap to work, and it says: {problem}", fix))
    return Bubblewrap(found, version)


def find_setpriv(home: str, bwrap: str) -> "tuple[str, Optional[Lack]]":
    """setpriv's path; or what is missing for users of their own."""
    found = shutil.which("setpriv")
    if os.getuid() != 0:
        return "", Lack("a server of root, which alone can give jobs users of their own", "start it as root")
    if found is None:
        return "", Lack("setpriv, which is not installed", "apt install util-linux")
    problem = _try(sandbox_words(2, home, bwrap, found, user=FIRST_USER))
    if problem:
        what = f"other users than root to run {sys.executable}, and that says: {problem}"
        return "", Lack(what, "install Stoker where all may read it")
    return found, None


def find_here(
    asked: Mapping[str, Any], base: str, own_folders: Sequence[str], folders: Sequence[str], hidden: Sequence[str] = ()
) -> Dict[str, Any]:
    """The words of a replica's sandbox on a node that looks for itself. Raises CannotStart for a level that it does not have.

    `asked`: {level: "auto", "0", "1" or "2", owner, user, inherit, tmp_bytes}. `base`: Stoker's folder on this node.
    `own_folders`: those of the job in there, or in what is `hidden`, such as the server's home where that is on this machine;
    `folders`: those elsewhere. Its program may write to all of them.
    """
    level = asked["level"]
    if level == "0":
        return {"level": 0}
    bubblewrap = find_bubblewrap(base)
    setpriv, lack = (
        find_setpriv(base, bubblewrap.path) if level == "2" and not bubblewrap.lack else ("", bubblewrap.lack)
    )
    if lack and level == "auto":
        return {"level": 0}
    if lack:
        raise CannotStart(f"isolation level {level} cannot be had on this node: it needs {lack}")
    found = sandbox_words(
        1 if level == "auto" else int(level),
        base,
        bubblewrap.path,
        setpriv,
        asked["owner"],
        folders=list(folders),
        own_folders=list(own_folders),
        hidden=[os.path.realpath(path) for path in hidden],
        inherit=asked["inherit"],
        tmp_bytes=asked["tmp_bytes"],
        user=asked["user"] if level == "2" else None,
    )
    for path in (os.path.dirname(found["own_home"]), found["own_home"]):
        os.close(open_folder(path, make=0o700))
    if found["user"] is not None:
        os.chown(found["own_home"], found["user"], found["user"])
    for path in (*folders, *own_folders):
        try:
            os.close(open_folder(path, make=opened(0o777)))
            if found["user"] is not None and path in own_folders:
                give_to(path, found["user"])
        except NotADirectoryError:
            raise CannotStart(f"{path} leads through a link or a file now; remove that") from None
    return found


def user_home() -> str:
    """The home of this process's user, by the system's books; empty if it has none."""
    try:
        home = os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return ""
    return home if home != "/" and os.path.isdir(home) else ""


def _try(isolation: Mapping[str, Any]) -> str:
    """Run Python in a sandbox of this kind. Returns what is wrong; empty if nothing is."""
    request = {"python": sys.executable, "visible_devices": "", "isolation": isolation, "is_alone": True}
    sandbox = Sandbox(request, Folder(os.devnull))  # nothing is to be written down
    command = [sys.executable, "-I", "-S", "-c", ""]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        with sandbox.start(lambda mounts, told: sandbox.command(command, mounts, told=told), **pipes) as process:
            try:
                _, errors = process.communicate(timeout=_TRY_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"nothing within {_TRY_SECONDS:g} s"
    except OSError as error:
        return str(error)
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {process.returncode}"]
    return last[0] if process.returncode else ""


def _said(command: List[str]) -> str:
    """What a command says; empty if it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_TRY_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
