"""A real server to attack: one process, its home with secrets in it, a user who attacks, and one who is to notice nothing."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from stoker.engines.local.leftovers import mark_of_home
from stoker.runtime import cgroups

ATTACKER, NEIGHBOUR = "mallory", "ada"
PATIENCE_SECONDS = 60.0
_FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


@dataclass
class Tries:
    """What came of an attack: how often it was tried, and what it got or broke; `notes`: figures for the table."""

    count: int = 0
    let_in: list[str] = field(default_factory=list)
    notes: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, gained: str = "") -> None:
        """One more try. `gained`: what it got; empty: nothing."""
        with self._lock:
            self.count += 1
            if gained:
                self.let_in.append(gained)

    def check(self, is_well: bool, otherwise: str) -> None:
        """A try that is well or not."""
        self.note("" if is_well else otherwise)


class Site:
    """`with Site(level) as site:` a server, and afterwards no process of it, whatever happened."""

    def __init__(self, level: int, **settings: str) -> None:
        """`settings`: those of the server, beside the level."""
        self.level = level
        self._folder = tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        os.chmod(self.folder, 0o755)
        self.home = self.folder / "home"
        self.private = self.folder / "private"  # of root, and of nobody else
        self.canary = f"canary-{secrets.token_hex(8)}"
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        chosen = {f"STOKER_{key.upper()}": value for key, value in settings.items()}
        here = {"STOKER_HOME": str(self.home), "STOKER_ISOLATION": str(level), "STOKER_REQUESTS_PER_SECOND": "0"}
        self.environment = {**kept, **here, "NO_COLOR": "1", **chosen}
        self.process: subprocess.Popen[bytes] | None = None
        self.tokens: dict[str, str] = {}

    def __enter__(self) -> Site:
        self.home.mkdir(mode=0o700)
        self.private.mkdir(mode=0o700)
        (self.private / "secret").write_text(self.canary)
        self.start()
        self.tokens = {
            "admin": (self.home / "token").read_text().strip(),
            ATTACKER: self._token(ATTACKER, "evil"),
            NEIGHBOUR: self._token(NEIGHBOUR, "good"),
        }
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:  # the server first: it starts again what is killed
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)
        self._end_groups()  # a fork bomb is quicker than who goes through its processes, and to look into them may take minutes
        for found in self._processes():
            try:
                found.kill()
            except psutil.Error:
                pass
        self._folder.cleanup()

    def _end_groups(self) -> None:
        groups = cgroups.find(f"stoker-{os.getuid()}")
        mine = mark_of_home(self.home / "runs")
        for name in groups.names() if groups else ():
            if groups and name.startswith(mine):
                folders = groups.group(name)
                waits_for(partial(cgroups.kill, folders[0]), f"{folders[0]} does not end")
                cgroups.remove(folders)

    def start(self) -> None:
        """Start the server, and wait until it is there."""
        with open(self.folder / "server.out", "ab") as log:
            command = [sys.executable, "-m", "stoker.cli.main", "up", "--foreground", "--port=0"]
            self.process = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        waits_for((self.home / "server.json").exists, "the server does not start")
        self.url = json.loads((self.home / "server.json").read_text())["url"]

    def client(self, user: str) -> httpx.Client:
        """A client of a user's, of one thread."""
        headers = {"Authorization": f"Bearer {self.tokens[user]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False)

    def ask(self, user: str, method: str, path: str, **named: Any) -> httpx.Response:
        """One request of a user's."""
        with self.client(user) as client:
            return client.request(method, path, **named)

    def run(self, user: str, name: str, program: str | Sequence[str], **body: Any) -> httpx.Response:
        """Submit a job of a user's: a Python text, or a command."""
        command = [sys.executable, "-c", program] if isinstance(program, str) else list(program)
        project = {ATTACKER: "evil", NEIGHBOUR: "good"}[user]
        asked = {"name": name, "command": command, **body}
        return self.ask(user, "POST", f"/stoker/v1/projects/{project}/jobs:run", json=asked)

    def job(self, user: str, name: str) -> Any:
        """A job of a user's, as it is described."""
        project = {ATTACKER: "evil", NEIGHBOUR: "good"}[user]
        return self.ask(user, "GET", f"/stoker/v1/projects/{project}/jobs/{name}").json()

    def wait(self, user: str, name: str, *states: str) -> str:
        """Wait until a job is in one of these states, or has ended. Returns its state."""
        wanted = (*states, *_FINAL)
        state = ""

        def is_there() -> bool:
            nonlocal state
            state = self.job(user, name)["state"]
            return state in wanted

        waits_for(is_there, f"{name} is not {' or '.join(wanted)}", seconds=2 * PATIENCE_SECONDS)
        return state

    def cancel(self, user: str, name: str) -> None:
        """Cancel a job, and wait until it is gone."""
        project = {ATTACKER: "evil", NEIGHBOUR: "good"}[user]
        answer = self.ask(user, "POST", f"/v1/projects/{project}/jobs/{name}:cancel")
        if answer.status_code not in (200, 400, 409):  # 400: it has ended
            raise RuntimeError(f"{name} cannot be cancelled: {answer.status_code} {answer.text[:200]}")
        self.wait(user, name)

    def printed(self, user: str, name: str) -> str:
        """What a job has printed."""
        project = {ATTACKER: "evil", NEIGHBOUR: "good"}[user]
        answer = self.ask(user, "GET", f"/stoker/v1/projects/{project}/jobs/{name}/logs")
        lines = [json.loads(line) for line in answer.text.splitlines()]
        return "\n".join(line["text"] for line in lines if line["kind"] == "log")

    def secrets(self) -> list[str]:
        """What no attacker may ever read."""
        key = (self.home / "replica.key").read_text().strip()
        return [self.canary, self.tokens["admin"], self.tokens[NEIGHBOUR], key]

    def gained(self, text: str) -> str:
        """Which secret is in a text; empty: none."""
        found = [number for number, secret in enumerate(self.secrets()) if secret in text]
        return f"secret {found}" if found else ""

    def memory_mb(self) -> float:
        """What the server itself holds in memory."""
        assert self.process is not None
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def _token(self, user: str, project: str) -> str:
        body = {"name": user, "projects": [project], "buckets": [f"{project}-data"]}
        headers = {"Authorization": f"Bearer {(self.home / 'token').read_text().strip()}"}
        answer = httpx.post(f"{self.url}/stoker/v1/tokens", json=body, headers=headers, trust_env=False)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    def _processes(self) -> list[psutil.Process]:
        """The server, and every process of its replicas: they have its home in their environment or their arguments."""
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), *process.environ().values()]
            except psutil.Error:
                continue
            if any(str(self.home) in word for word in words) and process.pid != os.getpid():
                found.append(process)
        return found


def waits_for(is_there: Callable[[], bool], otherwise: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > until:
            raise TimeoutError(otherwise)
        time.sleep(0.02)


def in_threads(site: Site, count: int, seconds: float, work: Callable[[httpx.Client, int], None]) -> None:
    """Call `work(client, number)` again and again, from so many threads with a client of the attacker's each, for so long."""
    until, numbers, lock = time.monotonic() + seconds, iter(range(1 << 60)), threading.Lock()
    errors: list[BaseException] = []

    def loop() -> None:
        try:
            with site.client(ATTACKER) as client:
                while time.monotonic() < until and not errors:
                    with lock:
                        number = next(numbers)
                    work(client, number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loop) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@dataclass
class Answered:
    """How quickly the server has told its state, in milliseconds, one figure a question."""

    milliseconds: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        """The time within which that share was answered."""
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")

    @property
    def summary(self) -> str:
        """`/status 12 ms (p99 40, worst 60)`."""
        return f"/status {self.at(0.5):.0f} ms (p99 {self.at(0.99):.0f}, worst {self.at(1.0):.0f})"


@contextmanager
def asking(site: Site) -> Iterator[Answered]:
    """Ask for the state again and again while the block runs, from a process of its own."""
    found = Answered()
    command = [sys.executable, "-m", "tests.attack.watcher", site.url, site.tokens[NEIGHBOUR]]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield found
    finally:
        told, _ = watcher.communicate("")
        found.milliseconds += json.loads(told)
