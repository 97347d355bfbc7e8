"""A place that is kept after a failure: for how long, and what somebody who wants to look needs to get in."""

from __future__ import annotations

import json
import os
import time
from typing import Callable, Dict

from .folder import Folder, write_whole

_LOOK_SECONDS = 0.2


def hold(folder: Folder, environment: Dict[str, str], seconds: float, give_up: Callable[[], bool]) -> bool:
    """Keep the place until the time is over, or it is given up. Returns which: whether the time was over."""
    until = time.monotonic() + seconds
    told = {"folder": folder.work, "environment": environment, "until": time.time() + seconds}
    write_whole(folder.shell_file, json.dumps(told))  # for its owner only: the environment may hold secrets
    try:
        while time.monotonic() < until:
            if give_up():
                return False
            time.sleep(_LOOK_SECONDS)
        return True
    finally:
        os.unlink(folder.shell_file)
