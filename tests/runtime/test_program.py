"""How one run of a program is stopped. In a process of its own: whatever is below that one is told, too."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

STOPPED_EARLY = """
import os, sys
from stoker.runtime.folder import Folder
from stoker.runtime.lines import Log
from stoker.runtime.program import Program
from stoker.runtime.sandbox import Sandbox

SLOW_TO_MAKE = '''
import signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
time.sleep(0.3)
listens = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
sys.exit(subprocess.call(sys.argv[1:], preexec_fn=listens) + 256)
'''
# As bubblewrap: it does not end when it is told to, and starts the program when the sandbox is made.

class SlowSandbox(Sandbox):
    own_processes = frozenset()

    def program(self, command, *_, **__):
        return [sys.executable, "-c", SLOW_TO_MAKE, *command]

    def outer(self, environment):
        return dict(environment)

    def _look(self, process, mounts, told):
        pass

    def code(self, code):
        return code - 256

folder = Folder(sys.argv[1])
awake, wakes = os.pipe()
os.write(wakes, b"x")
sandbox = SlowSandbox({"isolation": {"level": 1}}, folder)
program = Program(["sleep", "100"], dict(os.environ), folder.path, Log(folder.log_file, None), sandbox)
ended = program.wait(lambda: True, awake, grace_seconds=20.0)
print(ended.was_stopped, ended.code, flush=True)
os._exit(0)
"""


def test_a_program_that_is_to_stop_while_its_sandbox_is_made_is_told_when_it_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_EARLY, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["True", str(-signal.SIGTERM)], f"and not KILL, after the grace: {done.stderr}"
