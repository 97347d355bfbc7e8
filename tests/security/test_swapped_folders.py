"""A folder that a job swaps for a link while another job of its owner starts there: nothing but the folder is ever opened.

What is looked up twice is looked up at two moments (CWE-367; flatpak CVE-2024-42472). The swapping is real, and as quick as it
can be: two names are exchanged in one step, so that none is ever missing. bubblewrap's own comparison is not enough: the place
where something is mounted may be swapped as well, which the finished table of mounts shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.engines.local.isolation import Isolation
from stoker.runtime.folder import Folder
from stoker.runtime.no_links import give_to
from stoker.runtime.sandbox import Sandbox
from tests.engines.test_isolation import a_level

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sandboxes are known on Linux alone")
SWAPPER = """
import ctypes, os, sys, time
libc, pause = ctypes.CDLL(None), float(sys.argv[3])
one, other = map(os.fsencode, sys.argv[1:3])
print("swapping", flush=True)
until = time.monotonic() + 120  # should nobody end it
while time.monotonic() < until:
    libc.renameat2(-100, one, -100, other, 2)  # AT_FDCWD, RENAME_EXCHANGE
    goes_on = time.perf_counter() + pause
    while time.perf_counter() < goes_on:
        pass
"""
SECRET = "a line of another job"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that sandboxes show, with Stoker's home and a folder of a job's owner."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        place = Path(folder)
        place.chmod(0o755)
        (place / "home").mkdir(mode=0o700)
        (place / "home/logs/job").mkdir(parents=True)
        for name in ("home/logs/log", "home/logs/job/log"):
            (place / name).write_text(SECRET)
        (place / "data/above/job").mkdir(parents=True)
        yield place


def starts(place: Path, isolation: Isolation, swapped: str, to: str, *, pause: float, times: int) -> dict[str, int]:
    """Start programs while a folder is swapped for a link. Returns what became of them, and how often."""
    job, other = place / "data/above/job", (place / swapped).with_name("other")
    os.symlink(to, other)
    request = {"isolation": isolation.prepare(isolation.words("ada", (str(job),))), "python": sys.executable}
    sandbox = Sandbox({**request, "visible_devices": "", "is_alone": True}, Folder(os.devnull))
    look = (
        f"cat {job}/log {place}/home/logs/log /oldroot{place}/home/logs/log; ls {place}/home; cat /proc/self/mountinfo"
    )
    became: dict[str, int] = {}
    command = [sys.executable, "-c", SWAPPER, str(place / swapped), str(other), str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None and swapper.stdout.readline()
        try:
            for _ in range(times):
                what = _started(sandbox, ["sh", "-c", look], str(place / "home/logs"))
                became[what] = became.get(what, 0) + 1
        finally:
            swapper.kill()
    return became


def _started(sandbox: Sandbox, command: list[str], secret_folder: str) -> str:
    files = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    try:
        process = sandbox.start(lambda mounts, told: sandbox.command(command, mounts, told=told), **files)
    except OSError as error:
        return "refused" if "its job directory is not what it was" in str(error) else str(error)
    seen = process.communicate()[0]
    return "opened" if SECRET in seen or secret_folder in seen else "ran"


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("swapped", ["data/above/job", "data/above"])
@pytest.mark.parametrize("to", ["{place}/home/logs", "../../../../../../../../../oldroot{place}/home/logs"])
@pytest.mark.parametrize("pause", [0.0, 1e-3])
def test_nothing_of_the_home_is_opened(place: Path, level: int, swapped: str, to: str, pause: float) -> None:
    became = starts(place, a_level(level, place / "home"), swapped, to.format(place=place), pause=pause, times=15)
    assert set(became) <= {"ran", "refused"}, became


@pytest.mark.campaign
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("swapped", ["data/above/job", "data/above"])
def test_nothing_of_the_home_is_opened_in_many_tries(place: Path, level: int, swapped: str) -> None:
    to = f"../../../../../../../../../oldroot{place}/home/logs"
    became = starts(place, a_level(level, place / "home"), swapped, to, pause=2e-4, times=400)
    assert set(became) <= {"ran", "refused"}, became


@pytest.mark.skipif(os.getuid() != 0, reason="it needs root")
def test_a_folder_that_is_given_takes_nothing_along_that_is_somewhere_else_as_well(place: Path) -> None:
    job, kept = place / "data/above/job", place / "kept"
    for name in ("mine", "below/mine"):
        (job / name).parent.mkdir(exist_ok=True)
        (job / name).write_text("")
    kept.write_text("")
    os.link(kept, job / "linked")
    os.symlink(kept, job / "link")
    os.mkfifo(job / "pipe")
    give_to(str(job), 20_000)
    owners = {path.relative_to(job).as_posix(): path.lstat().st_uid for path in job.rglob("*")}
    assert kept.stat().st_uid == 0 and job.stat().st_uid == 20_000
    assert owners == {"mine": 20_000, "below": 20_000, "below/mine": 20_000, "pipe": 20_000, "linked": 0, "link": 0}
