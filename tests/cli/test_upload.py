"""Clients that go away in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import Server, wait_until

UPLOAD = """
import sys
from pathlib import Path
from stoker.client.client import Client
Client(sys.argv[1], sys.stdin.readline().strip()).upload(Path(sys.argv[2]), sys.argv[3])
"""


def test_a_client_that_is_killed_in_the_middle_of_an_upload_leaves_nothing(server: Server, tmp_path: Path) -> None:
    pipe, bucket = tmp_path / "pipe", server.home / "buckets/gs/killed-bucket"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-c", UPLOAD, server.found.url, str(pipe), "gs://killed-bucket/x"], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(server.found.token.encode() + b"\n")
    process.stdin.close()
    with open(pipe, "wb") as file:
        file.write(bytes(3 << 20))
        file.flush()
        wait_until(lambda: any(path.stat().st_size > 1 << 20 for path in bucket.glob(".*.part")))
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: not list(bucket.iterdir()))
    assert server.client.exists("gs://killed-bucket/x") is False
