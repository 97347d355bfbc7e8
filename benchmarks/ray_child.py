"""What Ray's own ways run in the comparisons. It imports nothing of ours, so that no worker of Ray has to."""

from __future__ import annotations

import subprocess


class Child:
    """An actor that starts a program. It waits for nothing: the program goes with it."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)


def run_child(command: list[str]) -> int:
    """A task that runs a program to its end."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=True).returncode
