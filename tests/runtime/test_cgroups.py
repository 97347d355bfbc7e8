"""Control groups, where this machine lets us make them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.runtime import cgroups
from stoker.runtime.cgroups import Cgroups
from tests.conftest import wait_until

NAME = f"stoker-test-{os.getpid()}"


@pytest.fixture
def groups() -> Iterator[Cgroups]:
    found = cgroups.find(NAME) if sys.platform.startswith("linux") else None
    if found is None:
        pytest.skip("no control group can be made here")
    yield found
    for base in {found.base, *found.limits.values()}:
        cgroups.remove([base])


def run_in(folders: list[str], script: str) -> subprocess.Popen[bytes]:
    """A Python program in a group."""
    code = f"from stoker.runtime import cgroups; cgroups.join({folders!r})\n{script}"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_a_group_is_killed_with_all_below_it(groups: Cgroups) -> None:
    folders = groups.make("a")
    fork = "import os, time\nfor _ in range(3): os.fork()\nos.setsid() if os.getpid() != os.getpgrp() else None\ntime.sleep(60)"
    child = run_in(folders, fork)
    wait_until(lambda: len(list(cgroups._pids(folders[0]))) == 8)
    wait_until(lambda: cgroups.kill(folders[0]))
    child.communicate()
    cgroups.remove(folders)
    assert groups.names() == []


def test_a_group_that_is_not_there_is_empty(groups: Cgroups) -> None:
    assert cgroups.kill(groups.group("never")[0])


def test_a_fork_bomb_meets_its_limit(groups: Cgroups) -> None:
    if "pids" not in groups.limits:
        pytest.skip("processes cannot be limited here")
    folders = groups.make("bomb", processes=20)
    bomb = """
import os, sys, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except BlockingIOError:
    print(count, flush=True)
"""
    child = run_in(folders, bomb)
    assert child.stdout is not None and int(child.stdout.readline()) == 19
    wait_until(lambda: cgroups.kill(folders[0]))
    child.communicate()
    cgroups.remove(folders)


def test_memory_meets_its_limit(groups: Cgroups) -> None:
    if "memory" not in groups.limits:
        pytest.skip("memory cannot be limited here")
    folders = groups.make("hungry", memory_bytes=64 << 20)
    child = run_in(folders, "x = b'x' * (256 << 20); print(len(x))")
    out = child.communicate(timeout=20)[0]
    cgroups.remove(folders)
    assert child.returncode == -9 or b"MemoryError" in out


@pytest.mark.parametrize("is_hard", [True, False])
def test_processors_meet_their_limit_only_where_it_is_hard(groups: Cgroups, is_hard: bool) -> None:
    base = Path(groups.limits.get("cpu", ""))
    file = next((f for f in ("cpu.cfs_quota_us", "cpu.max") if (base / f).exists()), None)
    if file is None:
        pytest.skip("the time of processors cannot be limited here")
    folders = groups.make("busy", vcpus=0.25, is_hard=is_hard)
    limit = (base / "busy" / file).read_text().split()[0]
    spin = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    used = float(run_in(folders, spin).communicate(timeout=20)[0])
    cgroups.remove(folders)
    if is_hard:
        assert limit == "25000" and used <= 0.5
    else:
        assert limit in ("-1", "max")


def test_all_groups_together_are_held(groups: Cgroups) -> None:
    had = groups.hold_all(8 << 30, 2)
    assert ("cpu" in groups.limits) == any(word in " ".join(had) for word in ("cpu.shares 2048", "cpu.weight 200"))
    assert ("memory" in groups.limits) == ("8.0 GB of memory" in had)
    folders = groups.make("a")
    child = run_in(folders, "print(1)")
    assert child.communicate()[0].strip() == b"1"
    cgroups.remove(folders)
