"""Checkpoints of a program whose job directory lies with the site: by the socket of its supervisor, to a server over HTTP."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from stoker.frameworks.checkpointing.checkpoints import MANIFEST
from stoker.frameworks.checkpointing.remote import StoredCheckpoints, checkpoints_at
from stoker.frameworks.checkpointing.site_file_system import SiteSystem, site_system
from stoker.runtime.server import Server, Unacceptable, Unreachable
from stoker.runtime.site_folder import Changed, SiteFolder
from stoker.runtime.site_socket import SiteSocket

PREFIX = "/stoker/replica/v1/p/j.1/chief-0/folders/0"


class Site(ThreadingHTTPServer):
    """A server's routes for folder 0, in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: dict[str, bytes] = {}
        self.refuses: tuple[int, str, str] | None = None
        self.refuses_lists = ""
        self.cuts_off = False


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Site

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path.removeprefix(PREFIX).lstrip("/"))

    def do_GET(self) -> None:
        path, below = self._path(), parse_qs(urlsplit(self.path).query).get("below", [""])[0]
        if not path and self.server.refuses_lists:
            self._refuse(400, "INVALID_ARGUMENT", self.server.refuses_lists)
        elif not path:
            found = {
                p: [len(d), 1] for p, d in self.server.content.items() if not below or f"{p}/".startswith(f"{below}/")
            }
            self._answer(200, json.dumps({"files": found}).encode())
        elif path in self.server.content and self.server.cuts_off:
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.server.content[path])))
            self.end_headers()
            self.wfile.write(self.server.content[path][:10])
            self.close_connection = True
        elif path in self.server.content:
            self._answer(200, self.server.content[path])
        else:
            self._refuse(400, "INVALID_ARGUMENT", "no such file")

    def do_PUT(self) -> None:
        size = int(self.headers["Content-Length"])
        data = self.rfile.read(size)
        if len(data) < size:
            return  # cut off
        if self.server.refuses:
            self._refuse(*self.server.refuses)
            return
        self.server.content[self._path()] = data
        self._answer(200, json.dumps({"stamp": [size, 1]}).encode())

    def do_DELETE(self) -> None:
        path = self._path()
        for other in [one for one in self.server.content if one == path or one.startswith(path + "/")]:
            del self.server.content[other]
        self._answer(200, b"{}")

    def _refuse(self, code: int, status: str, message: str) -> None:
        self._answer(code, json.dumps({"error": {"status": status, "message": message}}).encode())

    def _answer(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    """One that answers."""
    with Site() as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site
        site.shutdown()


@pytest.fixture
def request_of_replica(site: Site, tmp_path: Path) -> dict[str, object]:
    """What a supervisor is told."""
    (tmp_path / "server-url").write_text(f"http://127.0.0.1:{site.server_address[1]}")
    return {
        "server_file": str(tmp_path / "server-url"),
        "token": "t",
        "attempt": "p/j.1",
        "role": "chief",
        "index": 0,
        "mirrors": [{"number": 0, "path": str(tmp_path / "job")}],
    }


@pytest.fixture
def folder(request_of_replica: dict[str, object]) -> Iterator[SiteFolder]:
    """The folder, as the supervisor reaches it."""
    made = SiteFolder(Server(request_of_replica), 0)
    yield made
    made.close()


@pytest.fixture
def variables(request_of_replica: dict[str, object], tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of a program beside a supervisor that answers."""
    beat = tmp_path / ("a" * 100) / "beat"  # longer than the path of a socket may be
    beat.mkdir(parents=True)
    socket = SiteSocket(str(beat), request_of_replica, None)
    socket.start()
    yield {"STOKER_SITE_FOLDERS": f"0={tmp_path / 'job'}", "STOKER_SITE_SOCKET": socket.path}
    socket.close()


@pytest.fixture
def system(variables: dict[str, str], tmp_path: Path) -> SiteSystem:
    """The file system, as a program finds it."""
    found = site_system(str(tmp_path / "job" / "checkpoints"), variables)
    assert found is not None and found[1] == "checkpoints"
    return found[0]


def test_bytes_go_there_and_back(system: SiteSystem, site: Site, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(3 << 20))
    system.put_file(str(tmp_path / "large"), "a/large")
    system.pipe_file("a/small", b"few")
    system.pipe_file("empty", b"")
    assert site.content["a/large"] == (tmp_path / "large").read_bytes() and site.content["empty"] == b""
    system.get_file("a/large", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == site.content["a/large"] and system.cat_file("a/small") == b"few"
    assert system.ls("a") == ["a/large", "a/small"] and system.ls("") == ["a", "empty"]
    assert system.exists("a") and system.exists("empty") and not system.exists("b")
    system.rm("a", recursive=True)
    assert list(site.content) == ["empty"]


def test_what_is_missing_is_missing_and_what_is_refused_is_told(system: SiteSystem, site: Site) -> None:
    with pytest.raises(FileNotFoundError):
        system.cat_file("none")
    with pytest.raises(FileNotFoundError):
        system.ls("none")
    site.refuses = (503, "UNAVAILABLE", "the disk is full")
    with pytest.raises(OSError, match=r"^the disk is full$"):
        system.pipe_file("a", b"x")
    site.refuses = None
    system.pipe_file("a", b"x")
    assert site.content["a"] == b"x"


def test_a_folder_elsewhere_is_an_ordinary_one(variables: dict[str, str], tmp_path: Path) -> None:
    assert site_system(str(tmp_path / "job-2"), variables) is None
    assert site_system(str(tmp_path / "job"), {}) is None
    assert not checkpoints_at(str(tmp_path / "job")).is_remote


def test_a_checkpoint_counts_when_the_site_has_it(
    variables: dict[str, str], site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    kept = checkpoints_at(str(tmp_path / "job" / "checkpoints" / "state"))
    assert isinstance(kept, StoredCheckpoints) and kept.latest() is None
    for step in (10, 20, 30, 40, 50):
        draft = kept.begin(step, f"writer-{step}")
        (Path(draft) / "weights").write_text(f"of {step}")
        kept.commit(draft, step, {"step": step})
    assert not (tmp_path / "job").exists()
    names = sorted({path.split("/")[2] for path in site.content})
    assert names == ["step-000000030", "step-000000040", "step-000000050"]
    found = kept.latest()
    assert found is not None and found.step == 50 and Path(found.path("weights")).read_text() == "of 50"
    del site.content[f"checkpoints/state/step-000000050/{MANIFEST}"]  # as where the link was cut before it came
    found = kept.latest()
    assert found is not None and found.step == 40


def test_what_changes_meanwhile_is_not_kept(folder: SiteFolder, site: Site, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (2 << 20))
    with open(path, "rb") as file, pytest.raises(Changed):
        folder.send("a", file, lambda count: os.utime(path, ns=(1, 1)))
    with open(path, "rb") as file, pytest.raises(Changed):
        folder.send("a", file, lambda count: os.truncate(path, 1 << 20))
    assert not site.content
    with open(path, "rb") as file:
        assert folder.send("a", file) == [1 << 20, 1]


def test_who_refuses_before_the_end_is_heard(folder: SiteFolder, site: Site, tmp_path: Path) -> None:
    site.refuses = (400, "INVALID_ARGUMENT", "no such name")
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with open(path, "rb") as file, pytest.raises(Unacceptable, match="no such name"):
        folder.send("a", file)


def test_nobody_there_is_unreachable(request_of_replica: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "server-url").write_text("http://127.0.0.1:1")
    folder = SiteFolder(Server(request_of_replica), 0)
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with open(path, "r+b") as file:
        for ask in (lambda: folder.send("a", file), lambda: folder.bring("a", file), folder.files):
            with pytest.raises(Unreachable):
                ask()


def test_a_program_gets_no_folder_that_is_not_its_own(variables: dict[str, str]) -> None:
    with pytest.raises(OSError, match="no folder 1"):
        SiteSystem(1, variables["STOKER_SITE_SOCKET"]).exists("a")


def test_what_was_cut_off_is_not_whole(folder: SiteFolder, site: Site, tmp_path: Path) -> None:
    site.content["a"], site.cuts_off = b"x" * 1000, True
    with open(tmp_path / "file", "wb") as file, pytest.raises(Unreachable, match="cut off"):
        folder.bring("a", file)
