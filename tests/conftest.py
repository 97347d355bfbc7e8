"""The fixtures: a clock, a store of each kind, a house on a fake engine, an application in this process, a server of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import allowed_hosts
from stoker.app import Stoker, build
from stoker.client import embedded
from stoker.client.client import Client
from stoker.clock import ManualClock
from stoker.config import read_config
from stoker.gpu.drivers.fake import FakeDriver
from stoker.store.base import Store
from stoker.store.memory import MemoryStore
from stoker.store.sql import SqlStore

from .builders import House, a_house
from .exhaustive import left_out
from .homes import a_home
from .postgresql import fresh_database, postgresql

# How long an example takes is the machine's affair. They are the same each time, so that what fails has been changed;
# --hypothesis-profile=anew draws others.
hypothesis.settings.register_profile("anew", deadline=None)
hypothesis.settings.register_profile("stoker", deadline=None, derandomize=True)
hypothesis.settings.load_profile("stoker")


SLOW = ("live", "chaos", "engines", "property")
"""Folders of tests that take long: they begin first, so that no worker is left with one of them at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option of ours."""
    parser.addoption("--all", action="store_true", help="also campaigns that prove the same of further cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow ones first; files stay whole, and in order."""
    tests = Path(__file__).parent
    if not config.getoption("--all"):
        left = left_out(items)
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: not str(item.path.relative_to(tests)).startswith(SLOW))


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[Store]:
    """Every kind of store."""
    made = (
        MemoryStore(clock)
        if request.param == "memory"
        else SqlStore(request.getfixturevalue(f"{request.param}_database"), clock)
    )
    yield made
    made.close()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Path:
    """Where a SQLite database may be made."""
    return tmp_path / "stoker.db"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A real PostgreSQL server, started once for all tests."""
    with postgresql() as url:
        yield url


@pytest.fixture
def postgresql_database(postgresql_server: str) -> Iterator[str]:
    """An empty database on it."""
    with fresh_database(postgresql_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Path | str:
    """An empty database of each kind."""
    found: Path | str = request.getfixturevalue(f"{request.param}_database")
    return found


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A control plane with one node of four GPUs."""
    return a_house(tmp_path)


@pytest.fixture
def stoker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stoker]:
    """A whole Stoker, its loop at rest: nothing starts. It has declared nodes for the documents' examples.

    Its parameter, if it has one: more settings.
    """
    home = a_home(tmp_path / "home")
    flags = {"home": str(home), "hold": True, "fake": "10x4xT4,10x4xK80,3xn1-highmem-8"}
    flags |= getattr(request, "param", {})
    made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
    made.loop.tick()
    yield made
    made.store.close()


@pytest.fixture
def http(stoker: Stoker) -> Iterator[TestClient]:
    """The application, in this process, with the right token."""
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    headers = {"Authorization": f"Bearer {stoker.tokens.token}"}
    with TestClient(app, "http://127.0.0.1:7077", headers=headers, raise_server_exceptions=False) as client:
        yield client


@dataclass
class Server:
    """A server process of a test's own."""

    home: Path
    found: embedded.Found
    client: Client
    flags: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the CLI finds this server."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        return {**kept, "STOKER_HOME": str(self.home), "NO_COLOR": "1"}

    def cli(self, *words: str, cwd: Path | None = None, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        command = [sys.executable, "-m", "stoker.cli.main", *words]
        return subprocess.run(
            command, env=self.environment, cwd=cwd or self.home, capture_output=True, text=True, timeout=timeout
        )

    def restart(self, *, kill: bool = False) -> None:
        """End the server, politely or not, and start it again on the same home."""
        if kill:
            with suppress(ProcessLookupError):  # it may have been killed already
                os.kill(self.found.pid, signal.SIGKILL)
        else:
            embedded.stop(self._config(), self.found)
        wait_until(lambda: not embedded.is_locked(self.home))
        self.found = embedded.start(self._config(), self.flags)
        self.client.close()
        self.client = Client(self.found.url, self.found.token)

    def _config(self) -> Any:
        return read_config({"STOKER_HOME": str(self.home)})


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server in a process of its own. A module sets FLAGS to give it flags; its jobs and it are gone afterwards."""
    home = a_home(tmp_path_factory.mktemp("home"))
    flags = ("--port=0", *getattr(request.module, "FLAGS", ()))
    # Programs of tests tell them what happens through files: in a sandbox, too.
    (home / "config.yaml").write_text(f"job_folders: {tmp_path_factory.getbasetemp()}\n")
    config = read_config({"STOKER_HOME": str(home)})
    found = embedded.start(config, flags)
    made = Server(home, found, Client(found.url, found.token), flags)
    yield made
    made.client.close()
    made.cli("down", "--cancel-jobs")
    if embedded.is_locked(home):
        os.kill(made.found.pid, signal.SIGKILL)


def wait_until(is_true: Callable[[], Any], seconds: float = 60.0, *, every: float = 0.02) -> Any:
    """Ask until the answer is true; returns it. A test that waits for a real process has no other way."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = is_true()
        if found:
            return found
        time.sleep(every)
    raise AssertionError(f"not true within {seconds:g} s: {is_true}")
