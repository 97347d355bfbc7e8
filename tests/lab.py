"""A lab for the tests: machines of network, PID and mount namespaces on one switch, each with a real sshd and no shared folder.

A machine sees the system that the tests run on, but its own home, /tmp and /run, and nothing of the server's: neither its home
nor its environment. Its user is `ada`, who is not root. Its packages come from a cache of uv's, as it reaches no index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker.engines.ray.hosts import packages
from tests.conftest import wait_until
from tests.ray_hosts import _DIES_WITH_US, _held, _run, why_not

SERVER = 1
"""The number of the machine with Stoker's server. Its files are those of the tests."""

USER, USER_ID = "ada", 31_977
_NETWORK = "10.78.0"
_ROOT = Path(__file__).resolve().parents[1]


def why_no_lab() -> str:
    """Why there can be no lab here; empty: there can."""
    if missing := [tool for tool in ("ssh", "ssh-keygen", "setsid") if shutil.which(tool) is None]:
        return f"the lab needs {', '.join(missing)}"
    if not Path("/usr/sbin/sshd").exists():
        return "the lab needs sshd (openssh-server)"
    return why_not()


def address_of(number: int) -> str:
    """The address of a machine."""
    return f"{_NETWORK}.{number}"


def fill_cache(folder: Path) -> None:
    """Have uv keep what a machine with Ray alone is to install."""
    with tempfile.TemporaryDirectory() as target:
        subprocess.run(
            [
                _uv(),
                "pip",
                "install",
                "--quiet",
                "--python",
                sys.executable,
                "--target",
                target,
                *packages.of_environment("ray"),
            ],
            env={**os.environ, "UV_CACHE_DIR": str(folder)},
            check=True,
            timeout=600,
        )


class Lab:
    """`with Lab(cache) as lab:` a switch with the server's machine on it. Afterwards nothing of it is left."""

    def __init__(self, cache: Path) -> None:
        """`cache`: of uv's, for all machines."""
        self._cache = cache
        self._networks: dict[int, subprocess.Popen[bytes]] = {}
        self._machines: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Lab:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-lab-", dir="/tmp"))
        self.folder.chmod(0o711)
        self.home = self.folder / "stoker"
        for name in ("user", "host"):
            _run(f"ssh-keygen -q -t ed25519 -N '' -f {self.folder}/{name}_key", [])
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text(
            f"Host *\n  User {USER}\n  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n"
        )
        _run(f"chown -R {USER_ID}:{USER_ID} {self._cache}", [])
        self._hub = _held(["unshare", "--net"])
        self._in_hub("ip link set lo up && ip link add hub type bridge && ip link set hub up")
        self._add_network(SERVER)
        return self

    def __exit__(self, *_: object) -> None:
        self.stoker("down", check=False)
        for number in list(self._machines):
            self.kill(number)
        head = self.home / "ray" / "head.pid"
        if head.exists():
            subprocess.run(["pkill", "-KILL", "-s", head.read_text().strip()])  # the session of the head alone
        for process in (*self._networks.values(), self._hub):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def boot(self, number: int) -> None:
        """Switch a machine on. What is in its home is as it was."""
        if number not in self._networks:
            self._add_network(number)
        home = self.folder / str(number)
        if not home.exists():
            (home / ".ssh").mkdir(parents=True)
            shutil.copy(self.folder / "user_key.pub", home / ".ssh" / "authorized_keys")
            _run(f"chown -R {USER_ID}:{USER_ID} {home} && chmod 700 {home} {home}/.ssh", [])
        with open(self.folder / f"{number}.log", "wb") as output:
            self._machines[number] = subprocess.Popen(
                [*_DIES_WITH_US, *self.inside(number), *_MACHINE, "sh", "-euc", _BOOT, "sh"],
                env={
                    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "LAB": str(self.folder),
                    "HIDDEN": " ".join(map(str, _hidden())),
                    "MACHINE_HOME": str(home),
                    "ADDRESS": address_of(number),
                    "BASE_PYTHON": sys.base_prefix,
                    "CACHE": str(self._cache),
                    "USER_NAME": USER,
                    "USER_ID": str(USER_ID),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_until(lambda: self._answers(number), seconds=20.0)

    def kill(self, number: int) -> None:
        """As when a machine loses its power."""
        process = self._machines.pop(number)
        process.kill()
        process.wait()

    def pull_cable(self, number: int) -> None:
        """Nobody reaches the machine any more, and it nobody; what runs there runs on."""
        self._in_hub(f"ip link set v{number} down")

    def heal_cable(self, number: int) -> None:
        """Put it back."""
        self._in_hub(f"ip link set v{number} up")

    def slow_link(self, number: int, rate: str) -> None:
        """So much a second is all that goes to and from a machine: `2mbit`."""
        for side in (self._in_hub, lambda command: _run(command, self.inside(number))):
            name = f"v{number}" if side == self._in_hub else "eth0"
            side(f"tc qdisc replace dev {name} root tbf rate {rate} burst 32kbit latency 400ms")

    def stoker(
        self, *words: str, check: bool = True, variables: Mapping[str, str] | None = None, seconds: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        """The command line at the server's machine."""
        done = subprocess.run(
            [*self.inside(SERVER), sys.executable, "-m", "stoker.cli.main", *words],
            env={**self.environment(), **(variables or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def environment(self) -> dict[str, str]:
        """Of what runs at the server's machine."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("STOKER_", "RAY_"))}
        return {
            **clean,
            "STOKER_HOME": str(self.home),
            "STOKER_LEASE_SECONDS": "6",
            "STOKER_GRACE_SECONDS": "3",
            "COLUMNS": "200",
        }

    def run_at(self, number: int, script: str, user: str = USER) -> str:
        """What a script prints that runs as a user of a machine."""
        inner = next(iter(_children(self._machines[number].pid)))
        command = [
            "nsenter",
            f"--target={inner}",
            "--all",
            "setpriv",
            *(_AS_USER if user == USER else []),
            "sh",
            "-c",
            script,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def inside(self, number: int) -> list[str]:
        """The words that put a command onto the network of a machine."""
        return ["nsenter", f"--net=/proc/{self._networks[number].pid}/ns/net"]

    def _answers(self, number: int) -> bool:
        probe = f"import sys; from tests.ray_hosts import _is_reached; sys.exit(not _is_reached('{address_of(number)}', 22))"
        return (
            subprocess.run([*self.inside(SERVER), sys.executable, "-c", probe], cwd=_ROOT, timeout=30).returncode == 0
        )

    def _add_network(self, number: int) -> None:
        holder = self._networks[number] = _held(["unshare", "--net"])
        self._in_hub(
            f"ip link add v{number} type veth peer name eth0 netns {holder.pid}"
            f" && ip link set v{number} master hub && ip link set v{number} up"
        )
        _run(
            f"ip link set lo up && ip addr add {address_of(number)}/24 dev eth0 && ip link set eth0 up"
            f" && ip route add default via {address_of(254)}",
            self.inside(number),
        )

    def _in_hub(self, command: str) -> None:
        _run(command, ["nsenter", f"--net=/proc/{self._hub.pid}/ns/net"])


def _hidden() -> Sequence[Path]:
    """What a machine does not see: homes, what is temporary, the tests and their environment."""
    return [Path(path) for path in ("/root", "/home", "/tmp", "/var/tmp", "/run", "/dev/shm", str(_ROOT))]


def _children(pid: int) -> Sequence[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _uv() -> str:
    return str(Path(sys.executable).with_name("uv"))


_AS_USER = [
    f"--reuid={USER_ID}",
    f"--regid={USER_ID}",
    "--clear-groups",
    "env",
    "-i",
    f"HOME=/home/{USER}",
    "PATH=/usr/bin:/bin",
]
_MACHINE = ["unshare", "--pid", "--mount", "--uts", "--ipc", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
_BOOT = """
stage=$(mktemp -d)  # seen by this machine alone once /tmp is its own
mount -t tmpfs none "$stage"
mkdir "$stage/home" "$stage/cache" "$stage/python"
mount --bind "$MACHINE_HOME" "$stage/home"
mount --bind "$CACHE" "$stage/cache"
mount --bind "$BASE_PYTHON" "$stage/python"
cp "$LAB/host_key" "$stage/host_key"
{ grep -v "^$USER_NAME:" /etc/passwd; echo "$USER_NAME:x:$USER_ID:$USER_ID::/home/$USER_NAME:/bin/sh"; } >"$stage/passwd"
{ grep -v "^$USER_NAME:" /etc/group; echo "$USER_NAME:x:$USER_ID:"; } >"$stage/group"
{ grep -v "^$USER_NAME:" /etc/shadow; echo "$USER_NAME:*:19000:0:99999:7:::"; } >"$stage/shadow"
for file in passwd group shadow; do mount --bind "$stage/$file" "/etc/$file"; done
mkdir -p /mnt
mount --move "$stage" /mnt
for folder in $HIDDEN; do [ -d "$folder" ] && mount -t tmpfs -o mode=0755 none "$folder"; done
chmod 1777 /tmp /var/tmp /dev/shm
mkdir -p "/home/$USER_NAME" /run/sshd "$BASE_PYTHON"
mount --bind /mnt/home "/home/$USER_NAME"
mount --bind /mnt/python "$BASE_PYTHON"
chmod 755 /root
mkdir -p "/home/$USER_NAME/.cache/uv"
mount --bind /mnt/cache "/home/$USER_NAME/.cache/uv"
chown "$USER_ID:$USER_ID" "/home/$USER_NAME/.cache"
exec /usr/sbin/sshd -D -e -f /dev/null -h /mnt/host_key -o ListenAddress="$ADDRESS" -o UsePAM=no -o PidFile=none \
  -o PasswordAuthentication=no -o "SetEnv=PATH=$BASE_PYTHON/bin:/usr/local/bin:/usr/bin:/bin"
"""
