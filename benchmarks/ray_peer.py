"""Runs on the interpreter that has Ray, and without Stoker: starts a head, then submits one job for each line on stdin.

Its argument is the folder for what Ray writes. Whoever started it ends it, with all that it started.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from ray.job_submission import JobStatus, JobSubmissionClient

START_SECONDS = 120.0
LOOPBACK = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"  # Ray replaces 127.0.0.1 by an outer address


def main() -> None:
    """Serve until we are killed."""
    folder = sys.argv[1]
    gcs, dashboard, agent, agent_grpc, ray_client = free_ports(5)
    head = subprocess.Popen(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
            *(f"--node-ip-address={LOOPBACK}", f"--port={gcs}", f"--num-cpus={os.cpu_count()}"),
            *("--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
            *(f"--dashboard-agent-listen-port={agent}", f"--dashboard-agent-grpc-port={agent_grpc}"),
            *(f"--ray-client-server-port={ray_client}", "--object-store-memory=100000000"),
            *(f"--temp-dir={folder}", "--disable-usage-stats"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{dashboard}"
    client = connect(address, head)
    answer({"address": address})
    for line in sys.stdin:
        answer({"seconds": submit(client, json.loads(line)["entrypoint"])})


def connect(address: str, head: subprocess.Popen[bytes]) -> JobSubmissionClient:
    """A client, once the head answers."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            client = JobSubmissionClient(address)
            client.list_jobs()
            return client
        except Exception as error:  # it raises RuntimeError, ConnectionError and others while the head starts
            if time.monotonic() > until or head.poll() is not None:
                raise RuntimeError(f"Ray's head does not start: {error}") from error
            time.sleep(0.5)


def submit(client: JobSubmissionClient, entrypoint: str) -> float:
    """Run a program that prints the time. Returns the seconds from the request to that."""
    begin = time.time()
    job = client.submit_job(entrypoint=entrypoint)
    while client.get_job_status(job) not in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED):
        time.sleep(0.2)
    numbers = [line for line in client.get_job_logs(job).splitlines() if line.replace(".", "", 1).isdigit()]
    if not numbers:
        raise RuntimeError(f"the job of Ray printed nothing: {client.get_job_info(job)}")
    return float(numbers[0]) - begin


def answer(what: dict[str, Any]) -> None:
    """Tell the benchmark, on a line of its own."""
    print(json.dumps({"stoker_bench": what}), flush=True)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


if __name__ == "__main__":
    main()
