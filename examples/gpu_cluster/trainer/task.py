"""Prove that a cluster is wired, without training anything.

The chief listens at its own address until every worker and parameter server named in TF_CONFIG has said hello; then it
welcomes them all and exits 0, and with it the job succeeds. Workers exit 0 once welcomed; parameter servers wait on for
ever, as real ones do: stopping them is the platform's task. Replicas may start in any order, and be restarted.

Only the standard library is used, so that thirteen of these start on a laptop in well under a second.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PRIMARIES = ("chief", "master")  # two names of one role; which one is used depends on the runtime version
SHOWN = (
    "CLOUD_ML_JOB_ID",
    "CUDA_VISIBLE_DEVICES",
    "STOKER_DEVICES",
    "STOKER_CHECKPOINT_DIR",
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
    *("AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR", "AIP_TENSORBOARD_LOG_DIR"),
)


@dataclass(frozen=True)
class View:
    """The cluster as one replica sees it."""

    role: str
    index: int
    cluster: dict[str, list[str]]
    devices: list[str]

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"

    @property
    def address(self) -> str:
        """This replica's own address; an evaluator stands outside the cluster and has none."""
        return self.members.get(self.name, "")

    @property
    def chief_address(self) -> str:
        return next(self.cluster[role][0] for role in PRIMARIES if role in self.cluster)

    @property
    def members(self) -> dict[str, str]:
        """Every member's name and its address."""
        return {f"{role}-{index}": at for role, row in self.cluster.items() for index, at in enumerate(row)}


def main() -> int:
    arguments, user_args = parse_arguments()
    view = read_view(os.environ)
    sizes = ", ".join(f"{role} x {len(row)}" for role, row in view.cluster.items())
    print(f"cluster {sizes} · address {view.address or 'none'} · devices {' '.join(view.devices) or 'none'}")
    if user_args and view.role in PRIMARIES:
        print(f"arguments {user_args}")
    if arguments.job_dir:
        write_view(view, arguments.job_dir / "cluster")
    if faults := list(find_faults(view)):
        print(f"the cluster is wrong: {'; '.join(faults)}")
        return 1

    deadline = time.monotonic() + arguments.timeout
    if view.role in PRIMARIES:
        return welcome_all(view, deadline)
    if view.role == "evaluator":
        return 0
    with listen(view.address):  # held to show that our own address is ours; a real framework serves here
        if not say_hello(view, deadline):
            return 1
        while view.role == "ps":
            signal.pause()
    return 0


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=Path, help="where each replica writes what it sees")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds to wait for the others")
    return parser.parse_known_args()


def read_view(environ) -> View:
    config = json.loads(environ.get("TF_CONFIG") or "{}")
    if not config:
        sys.exit("TF_CONFIG is not set: run this as a job, see README.md")
    task, devices = config["task"], environ.get("STOKER_DEVICES", "")
    return View(task["type"], int(task["index"]), config["cluster"], [d for d in devices.split(",") if d])


def write_view(view: View, folder: Path) -> None:
    """Write this replica's view as JSON; first under another name, so that nobody reads half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = {"role": view.role, "index": view.index, "cluster": view.cluster, "devices": view.devices}
    seen["env"] = {name: os.environ[name] for name in SHOWN if name in os.environ}
    draft = folder / f".{view.name}.json"
    draft.write_text(json.dumps(seen, indent=2) + "\n")
    draft.replace(folder / f"{view.name}.json")


def find_faults(view: View):
    """Whatever would keep this cluster from working, one sentence each."""
    if not any(view.cluster.get(role) for role in PRIMARIES):
        yield "it has no chief"
    if view.role != "evaluator" and not view.address:
        yield f"{view.name} is not in it"
    for name, address in view.members.items():
        host, _, port = address.rpartition(":")
        if not (host and port.isdigit()):
            yield f"{name} has address {address!r}, wanted host:port"
    if len(set(view.members.values())) < len(view.members):
        yield "two members share one address"


def welcome_all(view: View, deadline: float) -> int:
    """The chief: keep every caller on the line until all are here, then welcome all at once."""
    callers: dict[str, socket.socket] = {}
    with listen(view.address) as server:
        while missing := set(view.members) - {view.name} - set(callers):
            server.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                caller, _ = server.accept()
            except TimeoutError:
                print(f"no hello from {', '.join(sorted(missing))}")
                return 1
            caller.settimeout(5)
            try:
                callers[caller.recv(200).decode().strip()] = caller  # one which was restarted takes its old place
            except (OSError, UnicodeDecodeError):
                caller.close()  # it broke off, and will call again
    for caller in callers.values():
        with caller, contextlib.suppress(OSError):
            caller.sendall(b"welcome\n")
    print(f"the cluster is complete: all {len(view.members)} are here")
    return 0


def say_hello(view: View, deadline: float) -> bool:
    """Call the chief until it welcomes us: it may start later than we do, or be restarted meanwhile."""
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection(split(view.chief_address), timeout=left) as chief:
                chief.sendall(f"{view.name}\n".encode())
                if chief.recv(100) == b"welcome\n":
                    print("welcomed by the chief")
                    return True
        except OSError:
            pass
        time.sleep(0.1)
    print(f"no welcome from the chief at {view.chief_address}")
    return False


def listen(address: str) -> socket.socket:
    return socket.create_server(split(address), backlog=64)


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main())
