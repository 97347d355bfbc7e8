"""How one run of a program is stopped."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from stoker.runtime.folder import Folder
from stoker.runtime.lines import Log
from stoker.runtime.program import Program
from stoker.runtime.sandbox import Sandbox

SLOW_TO_MAKE = """
import signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
time.sleep(0.3)
listens = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
sys.exit(subprocess.call(sys.argv[1:], preexec_fn=listens) + 256)
"""
"""As bubblewrap: it does not end when it is told to, and starts the program when the sandbox is made."""


class SlowSandbox(Sandbox):
    """A sandbox that is there after a while."""

    outermost = 0

    def program(self, command: Any, *_: Any, **__: Any) -> list[str]:
        return [sys.executable, "-c", SLOW_TO_MAKE, *command]

    def outer(self, environment: Any) -> dict[str, str]:
        return dict(environment)

    def note_namespace(self, told: int, outermost: int) -> None:
        os.close(told)
        self.outermost = outermost

    @property
    def own_processes(self) -> set[int]:
        return {self.outermost}

    def code(self, code: int) -> int:
        return code - 256


def test_a_program_that_is_to_stop_while_its_sandbox_is_made_is_told_when_it_is_there(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    sandbox = SlowSandbox({"isolation": {"level": 1}}, folder)
    awake, wakes = os.pipe()
    os.write(wakes, b"x")
    log = Log(folder.log_file, None)
    program = Program(["sleep", "100"], dict(os.environ), str(tmp_path), log, sandbox)
    ended = program.wait(lambda: True, awake, grace_seconds=20.0)
    log.drain(10)
    os.close(awake)
    os.close(wakes)
    assert ended.was_stopped and ended.code == -signal.SIGTERM, "and not KILL, after the grace"
