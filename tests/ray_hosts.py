"""Machines for the tests: each a network namespace, with a PID namespace for its Ray, on one switch.

Nothing of it has a name outside: the namespaces are held by processes of ours, and are gone with them, also when we are killed.
So several runs on one machine do not meet. Files are shared by all: /tmp is as a folder that every machine mounts.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.engines.ray.health import HEALTH
from tests.conftest import wait_until

HEAD = 1
"""The number of the machine with Ray's head, and Stoker's server."""

PORT = 6379
RAYLET = "/raylet/raylet"
_NETWORK = "10.77.0"
_MEMORY = 80_000_000
_START_SECONDS = 120.0
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET

_INIT = '"$@"; echo "Ray ended: $?"; while :; do sleep 1000; done'
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

    def __init__(self, environment: Mapping[str, str] | None = None, token: str = "t" * 32) -> None:
        """`token`: of Ray; empty: a cluster that is open to everybody. `environment`: of Ray's processes, beside ours."""
        self.token = token
        self._environment = HEALTH if environment is None else environment
        self.address = f"{address_of(HEAD)}:{PORT}"
        self._networks: dict[int, subprocess.Popen[bytes]] = {}
        self._machines: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> RayHosts:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-hosts-", dir="/tmp"))  # its sockets' paths are long
        try:
            self._hub = _held(["unshare", "--net"])
            self._in_hub("ip link set lo up && ip link add hub type bridge && ip link set hub up")
            self.start_head()
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
        missing = [number for number in numbers if not self.has_ray(number)]
        for number in missing:
            self.heal_cable(number)
            self.begin(number, f"--address={self.address}", f"--num-cpus={cpus}", "--num-gpus=0", f"--memory={8 << 30}")
        for number in missing:
            self.await_start(number)

    def has_ray(self, number: int) -> bool:
        """Whether Ray's own part of a node runs there."""
        return number in self._machines and bool(self.pids(number, RAYLET))

    def begin(self, number: int, *words: str) -> None:
        """Start Ray at a machine, which is made if it is not there. Nothing of an earlier life of it goes on."""
        if number in self._machines:
            self.kill(number)
        if number not in self._networks:
            self._add_network(number)
        folder = self._folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        command = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            *words,
            f"--node-ip-address={address_of(number)}",
        ]
        more = [f"--object-store-memory={_MEMORY}", f"--temp-dir={folder}", "--disable-usage-stats", "--block"]
        with open(folder / "start.log", "wb") as output:
            self._machines[number] = subprocess.Popen(
                [*_DIES_WITH_US, *self._inside(number), *_MACHINE, "sh", "-c", _INIT, "sh", *command, *more],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment(), start_new_session=True,
            )  # fmt: skip

    def await_start(self, number: int) -> None:
        """Until Ray says that it runs there."""
        log = self._folder(number) / "start.log"
        said = b"Ray runtime started"
        try:
            wait_until(lambda: any(word in log.read_bytes() for word in (said, b"Ray ended")), seconds=_START_SECONDS)
        finally:
            assert said in log.read_bytes(), log.read_text()

    def environment(self) -> dict[str, str]:
        """Of Ray's processes, and of whoever speaks to them."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("STOKER_", "RAY_"))}
        told = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if self.token else {"RAY_AUTH_MODE": "disabled"}
        return {
            **clean,
            **told,
            **self._environment,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "120",
        }

    def kill(self, number: int) -> None:
        """As when a machine loses its power: every process of it at once. Its cable and its address stay."""
        process = self._machines.pop(number)
        process.kill()
        process.wait()

    def pids(self, number: int, name: str = "") -> list[int]:
        """The processes of a machine whose command has this in it."""
        found = []
        inside = os.stat(f"/proc/{_child_of(self._machines[number].pid)}/ns/pid").st_ino
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if entry.isdigit() and os.stat(f"/proc/{entry}/ns/pid").st_ino == inside:
                    command = Path(f"/proc/{entry}/cmdline").read_bytes()
                    if name.encode() in command:
                        found.append(int(entry))
        return found

    def kill_raylet(self, number: int) -> None:
        """Ray's own part of a node, and nothing else there."""
        for pid in self.pids(number, RAYLET):
            os.kill(pid, signal.SIGKILL)

    def pull_cable(self, number: int) -> None:
        """Nobody reaches the machine any more, and it nobody; what runs there runs on."""
        self._in_hub(f"ip link set v{number} down")

    def heal_cable(self, number: int) -> None:
        """Put it back."""
        if number in self._networks:
            self._in_hub(f"ip link set v{number} up")

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


_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]
_MACHINE = ["unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]


def _held(namespace: list[str]) -> subprocess.Popen[bytes]:
    """A process that does nothing but keep a namespace, and is in it when this returns."""
    process = subprocess.Popen([*_DIES_WITH_US, *namespace, "sleep", "infinity"], stdin=subprocess.DEVNULL)
    wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    return process


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _run(command: str, prefix: list[str]) -> None:
    subprocess.run([*prefix, "sh", "-c", command], check=True, timeout=30)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
