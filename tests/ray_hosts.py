"""Machines for the tests: each a network namespace, with a PID namespace for its Ray, on one switch.

Nothing of it has a name outside: the namespaces are held by processes of ours, and are gone with them, also when we are killed.
So several runs on one machine do not meet. Files are shared by all: /tmp is as a folder that every machine mounts.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from stoker.engines.ray.health import HEALTH_ENVIRONMENT
from tests.conftest import wait_until

HEAD = 1
"""The number of the machine with Ray's head, and Stoker's server."""

PORT = 6379
RAY = (sys.executable, "-m", "ray.scripts.scripts")
RAYLET = "/raylet/raylet"
_NETWORK = "10.77.0"
_MEMORY = 80_000_000
_START_TRIES = 3
_HAS_STARTED, _HAS_ENDED = b"Ray runtime started", b"Ray has ended"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET

_INIT = '"$@"; echo "Ray has ended: $?"; while :; do sleep 1000; done'
"""The first process of a machine: what has lost its parent is its own, and is waited for when it ends."""


def why_not() -> str:
    """Why no machines can be simulated here; empty: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [tool for tool in ("ip", "nsenter", "setpriv", "unshare") if shutil.which(tool) is None]:
        return f"network namespaces need {', '.join(missing)}"
    probe = "ip link add b0 type bridge && ip link add v0 type veth peer name v1"
    command = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", probe]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return f"network namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


class RayHosts:
    """`with RayHosts() as hosts:` a switch, and Ray's head at a machine on it. Afterwards nothing of it is left."""

    def __init__(
        self, nodes: Sequence[int] = (), health: Mapping[str, str] = HEALTH_ENVIRONMENT, token: str = "t" * 32
    ) -> None:
        """`nodes`: machines with a node of Ray's from the beginning. `token`: Ray's; empty: open to everybody."""
        self._nodes, self._health, self.token = nodes, health, token
        self.address = f"{address_of(HEAD)}:{PORT}"
        self._networks: dict[int, subprocess.Popen[bytes]] = {}
        self._machines: dict[int, subprocess.Popen[bytes]] = {}
        self._words: dict[int, tuple[str, ...]] = {}
        self._cut_off: set[int] = set()

    def __enter__(self) -> RayHosts:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-hosts-", dir="/tmp"))  # its sockets' paths are long
        try:
            self._hub = _held(["unshare", "--net"])
            self._in_hub("ip link set lo up && ip link add hub type bridge && ip link set hub up")
            self.start_head()
            self.ensure(*self._nodes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._machines):
            self.kill(number)
        for process in (*self._networks.values(), self._hub):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_head(self) -> None:
        """Ray's head, without work of its own."""
        self.begin(HEAD, "--head", f"--port={PORT}", "--include-dashboard=false", "--num-cpus=0", "--num-gpus=0")
        self.await_start(HEAD)

    def ensure(self, *numbers: int, cpus: int = 2) -> None:
        """Nodes of Ray's at these machines; those that are missing are started, all at once."""
        missing = [number for number in numbers if not self._is_fit(number)]
        for number in missing:
            if number in self._machines:
                self.kill(number)
            self.heal_cable(number)
            self.begin(number, f"--address={self.address}", f"--num-cpus={cpus}", "--num-gpus=0", f"--memory={8 << 30}")
        for number in missing:
            self.await_start(number)

    def has_ray(self, number: int) -> bool:
        """Whether Ray's own part of a node runs there."""
        return number in self._machines and bool(self.pids(number, RAYLET))

    def fit(self) -> set[int]:
        """The machines with a node that the head knows."""
        return {number for number in self._machines if number != HEAD and self._is_fit(number)}

    def _is_fit(self, number: int) -> bool:
        return self.has_ray(number) and number not in self._cut_off

    def begin(self, number: int, *words: str) -> None:
        """Start Ray at a machine, which is made if it is not there. Nothing of an earlier life of it goes on."""
        if number in self._machines:
            self.kill(number)
        if number not in self._networks:
            self._add_network(number)
        self._words[number] = words
        folder = self._folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        command = [*RAY, "start", *words, f"--node-ip-address={address_of(number)}"]
        more = [f"--object-store-memory={_MEMORY}", f"--temp-dir={folder}", "--disable-usage-stats", "--block"]
        with open(folder / "start.log", "wb") as output:
            self._machines[number] = subprocess.Popen(
                [*_DIES_WITH_US, *self._inside(number), *_MACHINE, "sh", "-c", _INIT, "sh", *command, *more],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment(), start_new_session=True,
            )  # fmt: skip

    def await_start(self, number: int) -> None:
        """Until Ray says that it runs there. Where it does not come up within its own 30 seconds, it is started again."""
        log = self._folder(number) / "start.log"
        for _ in range(_START_TRIES):
            wait_until(lambda: any(said in log.read_bytes() for said in (_HAS_STARTED, _HAS_ENDED)), seconds=90.0)
            if _HAS_STARTED in log.read_bytes():
                return
            last_words = log.read_text()
            self.begin(number, *self._words[number])
        raise AssertionError(last_words)

    def environment(self) -> dict[str, str]:
        """Of Ray's processes, and of whoever speaks to them."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("STOKER_", "RAY_"))}
        told = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if self.token else {"RAY_AUTH_MODE": "disabled"}
        return {**clean, **told, **self._health, "RAY_USAGE_STATS_ENABLED": "0"}

    def kill(self, number: int) -> None:
        """As when a machine loses its power: every process of it at once. Its cable and its address stay."""
        process = self._machines.pop(number)
        process.kill()
        process.wait()

    def pids(self, number: int, name: str) -> list[int]:
        """The processes of a machine whose command has this in it, also those in PID namespaces of their own."""
        found = []
        for process in psutil.Process(self._machines[number].pid).children(recursive=True):
            with suppress(psutil.Error):
                if any(name in word for word in process.cmdline()):
                    found.append(process.pid)
        return found

    def kill_raylet(self, number: int) -> None:
        """Ray's own part of a node, and nothing else there."""
        for pid in self.pids(number, RAYLET):
            os.kill(pid, signal.SIGKILL)

    def drain(self, number: int, seconds: float) -> None:
        """Tell Ray, as a cloud's node script or its autoscaler does, that the machine goes away so soon."""
        with self.at(HEAD):
            self.python(_DRAIN, self.address, address_of(number), str(int((time.time() + seconds) * 1000)))

    def ask_driver(self, environment: Mapping[str, str] | None = None, at: int = HEAD) -> dict[str, Any]:
        """The first that Stoker's driver says of the cluster, with this in its environment; it sees no other machine's files."""
        hidden = [str(folder) for folder in self.folder.iterdir() if folder != self._folder(at)]
        words = ["sh", "-c", _HIDE, sys.executable, self.address, *hidden]
        with self.at(at):
            done = subprocess.run(
                ["unshare", "--mount", *words], env={**self.environment(), **(environment or {})}, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
        return told

    def python(self, program: str, *words: str) -> str:
        """What a program prints that speaks to Ray. Call it within `at`."""
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pull_cable(self, number: int) -> None:
        """Nobody reaches the machine any more, and it nobody; what runs there runs on."""
        self._cut_off.add(number)
        self._in_hub(f"ip link set v{number} down")

    def heal_cable(self, number: int) -> None:
        """Put it back, until the head is reached from there."""
        if number in self._cut_off:
            self._cut_off.remove(number)
            self._in_hub(f"ip link set v{number} up")
            with self.at(number):
                wait_until(lambda: _is_reached(address_of(HEAD), PORT))

    @contextmanager
    def at(self, number: int) -> Iterator[None]:
        """Within it this thread, and what it starts, is on the network as that machine is."""
        if number not in self._networks:
            self._add_network(number)
        with open("/proc/thread-self/ns/net") as home, open(f"/proc/{self._networks[number].pid}/ns/net") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def _add_network(self, number: int) -> None:
        holder = self._networks[number] = _held(["unshare", "--net"])
        self._in_hub(
            f"ip link add v{number} type veth peer name eth0 netns {holder.pid}"
            f" && ip link set v{number} master hub && ip link set v{number} up"
        )
        _run(
            f"ip link set lo up && ip addr add {address_of(number)}/24 dev eth0 && ip link set eth0 up"
            f" && ip route add default via {address_of(254)}",  # Ray asks the routes for its own address
            self._inside(number),
        )

    def _in_hub(self, command: str) -> None:
        _run(command, ["nsenter", f"--net=/proc/{self._hub.pid}/ns/net"])

    def _inside(self, number: int) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._networks[number].pid}/ns/net"]

    def _folder(self, number: int) -> Path:
        return self.folder / str(number)


def address_of(number: int) -> str:
    """The address of a machine."""
    return f"{_NETWORK}.{number}"


_HIDE = """
python=$0 address=$1; shift
for folder; do mount -t tmpfs none "$folder"; done
exec "$python" -m stoker.engines.ray.driver "$address" nobody
"""

_DRAIN = """
import ray, sys
from ray.core.generated.autoscaler_pb2 import DrainNodeReason
head, address, by_ms = sys.argv[1:]
gcs = ray._raylet.GcsClient(address=head)
(node,) = [key.hex() for key, row in gcs.get_all_node_info().items() if (row.node_manager_address, row.state) == (address, 0)]
was_accepted, why = gcs.drain_node(node, DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION, "a spot machine", int(by_ms))
assert was_accepted, why
"""
"""As `ray drain-node` does."""

_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]
_MACHINE = ["nice", "-n", "-5", "unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
"""Other tests keep these processors busy; a real machine has its own."""


def _held(namespace: list[str]) -> subprocess.Popen[bytes]:
    """A process that does nothing but keep a namespace, and is in it when this returns."""
    process = subprocess.Popen([*_DIES_WITH_US, *namespace, "sleep", "infinity"], stdin=subprocess.DEVNULL)
    wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    return process


def _is_reached(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True


def _run(command: str, prefix: list[str]) -> None:
    subprocess.run([*prefix, "sh", "-c", command], check=True, timeout=30)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
