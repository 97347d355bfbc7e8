"""A job swaps a folder of its own for a link, while its owner reads, writes and starts jobs there."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx

from stoker.core.errors import BadSpec
from stoker.store.names import is_part
from stoker.store.root import Root

from .site import ATTACKER, NEIGHBOUR, Site, Tries, in_threads, waits_for
from .swapper import swapping

_THREADS = 4
_SWAPS = """
import ctypes, os, time
{setup}
print("swaps", flush=True)
libc, until = ctypes.CDLL(None), time.monotonic() + {seconds}
while time.monotonic() < until:
    libc.renameat2(-100, {first}.encode(), -100, {second}.encode(), 2)
"""
_IN_ITS_FOLDER = """
top = os.environ["STOKER_JOB_DIR"]
os.makedirs(top + "/d", exist_ok=True)
os.chdir(top)
for name in ("token", "secret", "replica.key"):
    open("d/" + name, "w").write("mine")
os.symlink({target!r}, "x")
"""


def reads(site: Site, seconds: float, tries: Tries) -> None:
    """What the home holds, by every way in which its owner can read a file of a bucket."""
    for number, target in enumerate((site.home, site.private)):
        _reads_of(site, target, f"reads{number}", seconds / 2, tries)


def _reads_of(site: Site, target: Path, name: str, seconds: float, tries: Tries) -> None:
    _swap(site, name, str(target), seconds)
    paths = [
        (
            method,
            f"{door}{quote(f'out-{name}/d/{file}', safe='') if '/o/' in door else f'out-{name}/d/{file}'}{rest}",
        )
        for file in ("token", "secret", "replica.key")
        for method, door, rest in (
            ("GET", "/stoker/v1/files/gs/evil-data/", ""),
            ("HEAD", "/stoker/v1/files/gs/evil-data/", ""),
            ("GET", "/storage/v1/b/evil-data/o/", "?alt=media"),
            ("GET", "/storage/v1/b/evil-data/o/", ""),
            ("POST", "/storage/v1/b/evil-data/o/", "/rewriteTo/b/evil-data/o/stolen"),
        )
    ]
    paths += [
        ("GET", f"/storage/v1/b/evil-data/o?prefix=out-{name}/d/"),
        ("GET", f"/stoker/v1/projects/evil/jobs/{name}/artifacts"),
        ("GET", "/storage/v1/b/evil-data/o/stolen?alt=media"),
    ]
    known = set(os.listdir(target)) - {"token", "secret", "replica.key"}

    def one(client: httpx.Client, n: int) -> None:
        method, path = paths[n % len(paths)]
        answer = client.request(method, path)
        told = answer.text
        is_listed = path.endswith(("d/", "artifacts")) and any(f"d/{name}" in told for name in known)
        wrong = "listed what is outside" if is_listed else f"500 for {path}" if answer.status_code == 500 else ""
        tries.note(site.gained(told) or wrong)

    in_threads(site, _THREADS, seconds - 1, one)
    site.cancel(ATTACKER, name)


def writes(site: Site, seconds: float, tries: Tries) -> None:
    """A file into a folder of root's, or one of it away."""
    before = _state(site.private)
    _swap(site, "writes", str(site.private), seconds)
    put, object_ = "/stoker/v1/files/gs/evil-data/out-writes/d/", "/storage/v1/b/evil-data/o/out-writes%2Fd%2F"

    def one(client: httpx.Client, n: int) -> None:
        upload = f"/upload/storage/v1/b/evil-data/o?uploadType=media&name=out-writes/d/up{n % 5}"
        method, path = (
            ("PUT", f"{put}pwned{n % 5}"),
            ("POST", upload),
            ("DELETE", f"{object_}secret"),
            ("DELETE", f"{object_}up{n % 5}"),
            ("POST", f"{object_}secret/moveTo/o/out-writes%2Fd%2Fmoved"),
            ("POST", f"{object_}moved/moveTo/o/away"),
            ("POST", f"{object_}up{n % 5}/copyTo/b/evil-data/o/out-writes%2Fd%2Fcopied"),
        )[n % 7]
        answer = client.request(method, path, content=b"pwned" if method == "PUT" or "uploadType" in path else None)
        tries.note(f"500 for {path}" if answer.status_code == 500 else "")

    in_threads(site, _THREADS, seconds - 1, one)
    site.cancel(ATTACKER, "writes")
    tries.check(_state(site.private) == before, f"{site.private} has changed: {_state(site.private)}")
    top = site.home / "buckets/gs/evil-data"
    parts = [name for _, _, names in os.walk(top) for name in names if is_part(name)]
    tries.check(not parts, f"{len(parts)} parts are left behind")


def starts(site: Site, seconds: float, tries: Tries) -> None:
    """Jobs that start while their directory is a link to everybody's logs: none sees one."""
    site.run(NEIGHBOUR, "prints", f"print({site.canary!r})")
    site.wait(NEIGHBOUR, "prints")
    site.ask(NEIGHBOUR, "PUT", "/stoker/v1/files/gs/good-data/secret.txt", content=site.canary.encode())
    for number, target in enumerate((site.home / "logs", site.home / "buckets/gs/good-data")):
        _starts_in(site, str(target), f"starts{number}", seconds / 2, tries)
    assert (site.home / "buckets/gs/good-data").stat().st_uid == os.getuid(), "another's bucket was given away"


def _starts_in(site: Site, target: str, swaps: str, seconds: float, tries: Tries) -> None:
    _swap(site, swaps, target, seconds, below=f"out-{swaps}")
    looks = (
        "import os\n"
        f"for top in (os.environ['STOKER_JOB_DIR'], os.path.dirname(os.environ['STOKER_JOB_DIR']), {target!r}):\n"
        "    for folder, _, names in os.walk(top):\n"
        "        for name in names:\n"
        "            try: print(open(os.path.join(folder, name)).read(100000))\n"
        "            except OSError: pass\n"
    )
    until, number = time.monotonic() + seconds - 2, 0
    while time.monotonic() < until:
        names = [f"looks_{swaps}_{number + n}" for n in range(3)]
        number += len(names)
        for name in names:
            answer = site.run(ATTACKER, name, looks, job_dir=f"gs://evil-data/out-{swaps}/d")
            if answer.status_code == 500:
                tries.note(f"500: {answer.text}")
        for name in names:
            with suppress(KeyError):  # it was refused: its directory was a link
                site.wait(ATTACKER, name)
                tries.note(site.gained(site.printed(ATTACKER, name)))
    site.cancel(ATTACKER, swaps)


def steps(_: Site, seconds: float, tries: Tries) -> None:
    """The module that opens what is in buckets, without a server between: as many tries as there is time for."""
    with tempfile.TemporaryDirectory() as folder:
        top, outside = Path(folder, "bucket"), Path(folder, "outside")
        for made in (top / "d", outside):
            made.mkdir(parents=True)
            (made / "file").write_bytes(b"secret" if made == outside else b"mine")
        (top / "x").symlink_to(outside)
        before, root = _state(outside), Root(top)

        def write(name: str) -> None:
            with root.replacing(name) as file:
                file.write(b"new")

        def read() -> None:
            with root.open("d/file") as file:
                tries.note("read what is outside" if file.read() == b"secret" else "")

        uses = (
            read,
            lambda: write("d/new"),
            lambda: root.rename("d/new", "d/moved"),
            lambda: root.unlink("d/moved"),
            lambda: root.unlink("d/file2"),
            lambda: root.entries("d"),
        )
        until = time.monotonic() + seconds
        with swapping(top / "d", top / "x"):
            while time.monotonic() < until:
                for use in uses:
                    try:
                        use()
                    except (OSError, BadSpec):
                        pass
                    if use is not read:
                        tries.note()
        tries.check(_state(outside) == before, f"what is outside has changed: {_state(outside)}")


def _swap(site: Site, name: str, target: str, seconds: float, *, below: str = "") -> None:
    """A job that swaps `d` of its directory and a link to `target`; when this returns, it has begun."""
    setup = _IN_ITS_FOLDER.format(target=target)
    program = _SWAPS.format(setup=setup, seconds=seconds, first="(top + '/d')", second="(top + '/x')")
    answer = site.run(ATTACKER, name, program, job_dir=f"gs://evil-data/{below or f'out-{name}'}")
    assert answer.status_code == 200, answer.text
    waits_for(lambda: "swaps" in site.printed(ATTACKER, name), f"{name} does not begin")


def _state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What is in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path.relative_to(folder))] = (about.st_uid, about.st_mode, content)
    return found
