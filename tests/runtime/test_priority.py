"""The server goes before supervisors, and those before programs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's numbers are those of Linux")

_SAY = """
import os, resource
print(os.nice(0), open("/proc/self/oom_score_adj").read().strip(), *resource.getrlimit(resource.RLIMIT_NPROC))
"""


def said(script: str) -> list[int]:
    """What a child of a child says of itself: its niceness, its score, its limits of processes."""
    code = f"import os, subprocess, sys\nfrom stoker.runtime import priority\n{script}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return [int(word) for word in done.stdout.split()]


def test_a_program_goes_behind_its_supervisor() -> None:
    child = f"subprocess.run([sys.executable, '-c', {_SAY!r}], preexec_fn=priority.be_program)"
    nice, score, soft, hard = said(f"priority.be_supervisor(0, 500)\n{child}")
    assert nice == min(19, os.nice(0) + 5)
    assert score >= 500
    assert soft == hard == 500
    assert said(f"priority.be_supervisor(2, 0)\n{child}")[0] == min(19, os.nice(0) + 7)


def test_the_server_tells_what_it_has_had() -> None:
    script = (
        "nicer, had = priority.be_server()\nassert bool(nicer) == any('nice' in one for one in had), had\nprint(nicer)"
    )
    nicer, nice = said(f"{script}\nprint(os.nice(0))")
    assert nice == os.nice(0) - nicer


def test_nobody_is_killed_later_than_was_said_before() -> None:
    script = "open('/proc/self/oom_score_adj', 'w').write('700')\npriority.be_supervisor(0, 0)\n"
    assert said(script + "print(open('/proc/self/oom_score_adj').read())") == [700]
