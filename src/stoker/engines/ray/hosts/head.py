"""Ray's head on the server's machine, for the machines that were added by SSH: the server starts it, and again when it has ended.

What it is lies in the home, below `ray/`: its address, its token, its process. Jobs run on while the server is away, so the head
stays when the server goes; it ends with the last machine, or by `stop`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from stoker.core.errors import EngineError, Unavailable
from stoker.engines.ray.health import HEALTH_ENVIRONMENT
from stoker.runtime.folder import write_whole

PORT = 6379
_START_SECONDS = 60.0
_END_SECONDS = 15.0
_UP = b"Ray runtime started"
_TRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the head is."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """As Ray takes it."""
        return f"{self.host}:{self.port}"


class Head:
    """The one of a home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "ray"
        self._file, self._token_file = self._folder / "head.json", self._folder / "token"
        self._pid_file, self._log = self._folder / "head.pid", self._folder / "head.log"

    @property
    def place(self) -> Place | None:
        """None: this home has none of its own."""
        try:
            return Place(**json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise Unavailable(f"{self._file} cannot be read: {error}", fix="stoker nodes add writes it anew") from None

    @property
    def token(self) -> str:
        """Made when it is asked for the first time."""
        with suppress(FileNotFoundError):
            found = self._token_file.read_text(encoding="ascii").strip()
            if found:
                return found
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(str(self._token_file), secrets.token_hex(32))
        return self._token_file.read_text(encoding="ascii")

    @property
    def environment(self) -> Mapping[str, str]:
        """Of Ray's processes on this machine, the driver among them."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
            **HEALTH_ENVIRONMENT,
        }

    def settle(self, host: str) -> Place:
        """Where it is from now on; where it was, if that is the same machine's address."""
        place = self.place
        if place is None or place.host != host:
            place = Place(host, _free_port(host))
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(str(self._file), json.dumps(asdict(place)))
        return place

    def ensure(self) -> None:
        """Start it if it does not run. Raises EngineError with what Ray says, if it does not come up."""
        place = self.place
        if place is None or _answers(place):
            return
        with self._alone():
            if not _answers(place):  # another may have started it meanwhile
                self._start(place)

    def _start(self, place: Place) -> None:
        self._end_process()
        with open(self._log, "wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", f"--port={place.port}"),
                    *(f"--node-ip-address={place.host}", "--num-cpus=0", "--num-gpus=0", "--include-dashboard=false"),
                    *(f"--temp-dir={self._temporary()}", "--disable-usage-stats", "--block"),
                ],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
            )
        write_whole(str(self._pid_file), str(process.pid))
        until = time.monotonic() + _START_SECONDS
        while _UP not in self._log.read_bytes():
            if process.poll() is not None or time.monotonic() > until:
                said = self._log.read_text(errors="replace").strip().splitlines()
                raise EngineError(
                    f"Ray's head does not start at {place.address}: {said[-1] if said else 'it says nothing'}",
                    fix=f"its log is {self._log}",
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """End it; this home has none any more."""
        with self._alone():
            self._file.unlink(missing_ok=True)
            self._end_process()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The server and a command may want the head at the same time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self._folder / "head.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _temporary(self) -> Path:
        mark = hashlib.sha256(str(self._folder).encode()).hexdigest()[:8]
        folder = Path(f"/tmp/stoker-head-{os.getuid()}-{mark}")  # the paths of its sockets are long
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077 or not stat.S_ISDIR(found.st_mode):
            raise EngineError(
                f"{folder} is another user's", fix="have it removed: Ray's sockets and logs are to lie there"
            )
        return folder / "ray"  # Ray opens its own folder to everybody: the one around it stays ours

    def _end_process(self) -> None:
        try:
            process = psutil.Process(int(self._pid_file.read_text()))
            if "ray.scripts.scripts" not in process.cmdline():
                return
            tree = [process, *process.children(recursive=True)]
        except (OSError, ValueError, psutil.Error):
            return
        with suppress(psutil.Error):
            process.send_signal(signal.SIGTERM)
        for left in psutil.wait_procs(tree, timeout=_END_SECONDS)[1]:
            with suppress(psutil.Error):
                left.kill()
        self._pid_file.unlink(missing_ok=True)


def _answers(place: Place) -> bool:
    try:
        socket.create_connection((place.host, place.port), _TRY_SECONDS).close()
    except OSError:
        return False
    return True


def _free_port(host: str) -> int:
    """The usual one, or another if that is taken."""
    for port in (PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise EngineError(f"{host} is not an address of this machine", fix="name one: stoker nodes add --address IP")
