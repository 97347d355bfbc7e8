"""What a server does for itself when it starts."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, resource
import stoker.server.run
from stoker.server.process import MOST_FILES, make_room_for_many
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
make_room_for_many()
soft, still = resource.getrlimit(resource.RLIMIT_NOFILE)
assert (soft, still) == (MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES), hard), (soft, still)
assert gc.get_freeze_count() > 10_000 and gc.get_threshold()[0] > 700
"""


def test_it_may_hold_more_connections_than_the_usual_limit_and_does_not_sift_what_it_keeps() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert not ended.returncode, ended.stderr
