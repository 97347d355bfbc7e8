"""One round's machinery: a home, a server process, client processes, and the hands that hurt them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from stoker.core.errors import StokerError

from .client import PROGRAM, PROJECT
from .databases import Database, Sqlite
from .program import KINDS

NODES = "4x4xT4,2x2xV100"
HOME_MEGABYTES = 64
_ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 30.0


class Rig:
    """`with Rig(folder, seed) as rig:` a server with two clients; afterwards no process is left, whatever happened."""

    def __init__(
        self,
        folder: Path,
        seed: str,
        *,
        on_tmpfs: bool = False,
        database: Database | None = None,
        clock: Path | None = None,
        kinds: Sequence[str] = KINDS,
    ) -> None:
        """`database`: where its state is; in the home, if none is given. `clock`: the library of clock.c.

        `kinds`: of the jobs that are submitted.
        """
        self.folder, self.seed, self.on_tmpfs = folder, seed, on_tmpfs
        self.home, self.witness, self.journals = folder / "home", folder / "witness", folder / "journals"
        for path in (self.home, self.witness, self.journals):
            path.mkdir(parents=True)
        self.mark = f"chaos-{os.getpid()}-{folder.name}"
        self.config = read_config({"STOKER_HOME": str(self.home)})
        self.draw, self._kinds = random.Random(seed), kinds
        self.database = database or Sqlite(self.home)
        self.server: subprocess.Popen[bytes] | None = None
        self.client_processes: list[subprocess.Popen[bytes]] = []
        self.recovery_seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.hits: dict[str, int] = {}  # job → how often its supervisor or its program was killed
        self.wrong: list[str] = []  # what a fault itself found
        self._clock_file = folder / "clock"
        self._clock_file.write_bytes(struct.pack("l", 0))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        self.environment = {**kept, "STOKER_HOME": str(self.home), "NO_COLOR": "1"}
        # What a sandbox has to show, wherever this checkout lies: the program, and where it testifies. The disk is small.
        self.environment["STOKER_JOB_FOLDERS"] = f"{self.witness},{PROGRAM.parent}"
        self.environment["STOKER_RESERVE_MB"] = "8"
        if self.database.url:
            self.environment["STOKER_DATABASE"] = self.database.url
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        self.has_clock = clock is not None
        if clock is not None:
            self.environment |= {"LD_PRELOAD": str(clock), "CHAOS_CLOCK": str(self._clock_file)}

    def __enter__(self) -> Rig:
        if self.on_tmpfs:
            command = ["mount", "-t", "tmpfs", "-o", f"size={HOME_MEGABYTES}m", "chaos", str(self.home)]
            subprocess.run(command, check=True, capture_output=True)
        self.start_server()
        self.wait_for_server()
        for number in range(2):
            self.start_client(f"c{number}")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.client_processes:
            process.kill()
            process.wait()
        self.kill_server()
        for found in self.processes():
            with suppress(psutil.Error):
                found.kill()
        if self.on_tmpfs:
            shutil.copytree(
                self.home, self.folder / "home-kept", ignore=lambda *_: ["cache", "ballast"], dirs_exist_ok=True
            )
            subprocess.run(["umount", "--lazy", str(self.home)], check=False, capture_output=True)

    # The server.

    def start_server(self) -> None:
        """Start it, and do not wait."""
        self.server = self._start()

    def stand_by(self) -> subprocess.Popen[bytes]:
        """Another server on the same home, once it stands by. Who calls this ends it, or lets it be the server."""
        other = self._start("--standby")
        if not _waits_for(lambda: (self.home / f"standby-{other.pid}.json").exists() or other.poll() is not None):
            self.wrong.append("a second server did not stand by")
        return other

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self.home / "server.log", "ab") as log:
            command = [sys.executable, "-m", "stoker.cli.main", "up", "--foreground", "--port=0", f"--fake={NODES}"]
            return subprocess.Popen(
                [*command, *words], env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill_server(self) -> None:
        """SIGKILL, if it runs."""
        if self.server is not None:
            with suppress(ProcessLookupError):
                os.kill(self.server.pid, signal.SIGKILL)
            self.server.wait()
            self.server = None

    def end_server(self) -> None:
        """SIGTERM, and wait."""
        if self.server is not None:
            self.server.terminate()
            try:
                self.server.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.wrong.append("the server did not end upon SIGTERM")
            self.kill_server()

    def wait_for_server(self) -> embedded.Found:
        """Until it leads. Raises RuntimeError with the end of its log."""
        found: list[embedded.Found | None] = [None]

        def leads() -> bool:
            assert self.server is not None
            found[0] = embedded.find(self.config)
            return (found[0] is not None and found[0].pid == self.server.pid) or self.server.poll() is not None

        if not _waits_for(leads) or found[0] is None or self.server is None or found[0].pid != self.server.pid:
            raise RuntimeError("the server did not start: " + (self.home / "server.log").read_text()[-2000:])
        return found[0]

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of the server as it is now."""
        found = self.wait_for_server()
        made = Client(found.url, found.token, seconds=15.0)
        try:
            yield made
        finally:
            made.close()

    def restart(self) -> None:
        """Start the server after it died, and measure how long it takes."""
        before = time.monotonic()
        self.start_server()
        self.measure_recovery(before, "a restarted server")

    def measure_recovery(self, before: float, who: str) -> None:
        """How long since a moment until the server takes a job, shows all that lived, and runs a new job."""
        name = f"probe_{self.draw.getrandbits(48):x}"
        command = [sys.executable, "-S", "-I", str(PROGRAM), str(self.witness), self.mark, "plain", "0", "1"]
        with self.client() as client:
            known = {str(id).partition("/")[2] for (id,) in self.database.rows("SELECT id FROM jobs WHERE live = 1")}
            self._until(lambda: bool(client.run(PROJECT, {"name": name, "command": command})), "takes a job")
            self.recovery_seconds[who, "takes a job"].append(time.monotonic() - before)
            shown = {job["name"] for job in client.live_jobs()}
            ended = {n for n in known - shown if client.details(PROJECT, n)["state"] not in ("QUEUED", "RUNNING")}
            if known - shown - ended:
                self.wrong.append(f"not seen again: {sorted(known - shown - ended)}")
            self.recovery_seconds[who, "shows all that lived"].append(time.monotonic() - before)
        self._until((self.witness / f"{name}.chief-0.witness").exists, "runs a job")
        self.recovery_seconds[who, "runs a new job"].append(time.monotonic() - before)

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        def asks() -> bool:
            with suppress(StokerError):
                return is_so()
            return False

        if not _waits_for(asks):
            self.wrong.append(f"the server does not do within {_PATIENCE_SECONDS:g} s what it should: it {what}")

    # The clients.

    def start_client(self, prefix: str) -> None:
        """Start a client process with a journal of its own."""
        words = [
            self.home,
            self.journals / f"{prefix}.jsonl",
            self.witness,
            self.mark,
            prefix,
            f"{self.seed}/{prefix}",
            ",".join(self._kinds),
        ]
        kept = {k: v for k, v in self.environment.items() if k != "LD_PRELOAD"}
        with open(self.folder / "clients.err", "ab") as errors:
            command = [sys.executable, "-m", "tests.chaos.client", *map(str, words)]
            self.client_processes.append(subprocess.Popen(command, env=kept, cwd=_ROOT, stderr=errors))

    def kill_client(self) -> None:
        """SIGKILL in whatever it is doing; another takes its place, under other names."""
        process = self.client_processes.pop(0)
        process.kill()
        process.wait()
        self.start_client(f"c{len(list(self.journals.iterdir()))}k{self.draw.getrandbits(16):x}")

    @contextmanager
    def paused_clients(self) -> Iterator[None]:
        """They stand still: nobody asks anything."""
        for process in self.client_processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self.client_processes:
                process.send_signal(signal.SIGCONT)

    def end_clients(self) -> None:
        """Let them finish what they have begun."""
        for process in self.client_processes:
            process.terminate()
        for process in self.client_processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                self.wrong.append("a client did not end")
                process.kill()
        self.client_processes.clear()

    # What runs.

    def supervisors(self) -> list[psutil.Process]:
        """The supervisors of this home."""
        runs = f"{self.home}/runs/"
        return [p for p in psutil.process_iter() if any(word.startswith(runs) for word in _words(p))]

    def programs(self) -> list[psutil.Process]:
        """The programs, and what they left: whoever bears the mark."""
        return [p for p in psutil.process_iter() if self.mark in _words(p)]

    def processes(self) -> list[psutil.Process]:
        """All of them."""
        return self.supervisors() + self.programs()

    def attempts(self) -> dict[str, Path]:
        """Every attempt that has a folder, with it."""
        return {f"{path.parent.name}/{path.name}": path for path in (self.home / "runs").glob("*/*")}

    def may_be_hit(self, process: psutil.Process) -> None:
        """Remember that a job may fail because of what is done now."""
        with suppress(psutil.Error, IndexError):  # it has ended meanwhile, and has no words any more
            job = " ".join(_words(process)).partition("/runs/")[2].split("/")[1].rpartition(".")[0]
            self.hits[job] = self.hits.get(job, 0) + 1

    def hit(self, process: psutil.Process, number: int) -> None:
        """Signal a supervisor or a program, and remember whose."""
        with suppress(psutil.Error):
            words = " ".join(_words(process))
            job = words.partition("/runs/")[2].split("/")[1].rpartition(".")[0] if "/runs/" in words else ""
            job = job or process.environ().get("STOKER_JOB_NAME", "")
            process.send_signal(number)
            if number == signal.SIGKILL:
                self.hits[job] = self.hits.get(job, 0) + 1

    # The machine.

    def set_clock(self, seconds: int) -> None:
        """Set the clock of the server and of all that it starts, off by so much."""
        with open(self._clock_file, "r+b") as file:
            file.write(struct.pack("l", seconds))

    def fill_disk(self) -> None:
        """Until nothing more can be written."""
        with open(self.home / "ballast", "ab", buffering=0) as file, suppress(OSError):
            while file.write(b"\0" * (1 << 16)):
                pass

    def empty_disk(self) -> None:
        """Give the room back."""
        (self.home / "ballast").unlink(missing_ok=True)


def build_clock(folder: Path) -> Path | None:
    """The library that shifts a clock; None where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    library = folder / "clock.so"
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(library),
        str(Path(__file__).with_name("clock.c")),
        "-ldl",
    ]
    return library if subprocess.run(command, capture_output=True).returncode == 0 else None


def can_mount() -> bool:
    """Whether a small file system can be mounted."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "chaos", folder]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


def _waits_for(is_so: Callable[[], bool], seconds: float = _PATIENCE_SECONDS) -> bool:
    """Whether something comes true in time."""
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
