"""What the server never does: fetch what an address of a request names, load what may hold code, hand a text to a shell.

Ray CVE-2023-48023 and -6019, MLflow CVE-2024-37052, BentoML CVE-2024-2912, -27520, -32375, ClearML CVE-2024-24590, TorchServe
CVE-2023-43654, PyTorch CVE-2025-32434, jupyter-server-proxy CVE-2022-21697. There are no proxies, notebooks, models that are
served, or plugins here; whoever adds one carelessly fails a test.
"""

from __future__ import annotations

import ast
import re
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import a_job_body
from tests.security.table import doors

SOURCE = Path(__file__).parents[2] / "src" / "stoker"

LOADS_CODE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "joblib", "jsonpickle"}
LOADS_CODE |= {"torch", "tensorflow", "code", "codeop", "pty", "xml", "lxml"}
GOES_OUT = {
    "httpx": {"client"},
    "requests": set(),
    "aiohttp": set(),
    "urllib3": set(),
    "ftplib": set(),
    "smtplib": set(),
}
GOES_OUT |= {
    "urllib.request": set(),
    "http.client": {"runtime"},
    "telnetlib": set(),
    "grpc": {"engines"},  # to Ray's head, whose address is a setting
    "websockets": set(),
}
"""Modules that connect to elsewhere, and the rooms that may: the client to its server, a replica to its own."""
PICKLES = {"frameworks/checkpointing/parts/part.py"}
"""Runs within the job, as its program, and reads what that has written into its own directory."""

MARSHALS = {"runtime/zipapp.py"}  # writes the code of our own runtime, and reads none


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Every module of ours."""
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py"))]


def imported(tree: ast.Module) -> set[str]:
    """The modules that a tree imports, wherever it does."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call, by the dotted name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_nothing_that_may_hold_code_is_loaded() -> None:
    """No pickle in any of its guises; YAML by its safe loader; arrays without objects; no text is run as a program."""
    wrong = []
    for name, tree in trees():
        loads = {module for module in imported(tree) if module.split(".")[0] in LOADS_CODE}
        wrong += [f"{name} imports {module}" for module in loads if name not in PICKLES]
        if "marshal" in imported(tree) and name not in MARSHALS:
            wrong.append(f"{name} imports marshal")
        for called, call in calls(tree):
            words = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            if called in (
                "eval",
                "exec",
                "__import__",
                "os.system",
                "os.popen",
                "marshal.loads",
                "marshal.load",
                "yaml.load",
            ):
                wrong.append(f"{name} calls {called}")
            if called.endswith(("np.load", "numpy.load")) and words.get("allow_pickle", "False") != "False":
                wrong.append(f"{name} loads arrays of objects")
            if called.startswith("yaml.") and called.endswith("_all") and not called.endswith("safe_load_all"):
                wrong.append(f"{name} calls {called}")
    assert not wrong


def test_no_text_reaches_a_shell() -> None:
    """Ray CVE-2023-6019: a parameter of a route stood in a command line."""
    wrong = []
    for name, tree in trees():
        for called, call in calls(tree):
            if called.startswith("subprocess.") or "create_subprocess" in called:
                words = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
                if words.get("shell", "False") != "False" or "get" in called or called.endswith("_shell"):
                    wrong.append(f"{name}: {called} through a shell")
                if call.args and isinstance(call.args[0], ast.Constant | ast.JoinedStr | ast.BinOp):
                    wrong.append(f"{name}: {called} with a text for a command")
    assert not wrong


DELIVERS = {
    "alerts/channels/email.py": {"smtplib"},
    "alerts/http_post.py": {"http.client", "socket.create_connection"},
}
"""Bring alerts: to the mail server of the settings, and to addresses that were looked at (tests/alerts/test_http_post.py)."""

ASKS_RAY = {"engines/ray/entrance.py", "engines/ray/hosts/head.py"}
"""They ask the head of the cluster that the settings name whether it can be entered, and our own whether it runs."""


def test_no_room_of_the_server_connects_to_elsewhere() -> None:
    """What is not there cannot be turned against the inside of a network. Buckets of a cloud go through fsspec, by name."""
    wrong = []
    for name, tree in trees():
        room = name.split("/")[0]
        for module in imported(tree):
            if module in GOES_OUT and room not in GOES_OUT[module] and module not in DELIVERS.get(name, ()):
                wrong.append(f"{name} imports {module}")
        for called, _ in calls(tree):
            if (
                called.endswith((".create_connection", ".open_connection", ".urlopen"))
                and room != "runtime"
                and name not in ASKS_RAY
                and called not in DELIVERS.get(name, ())
            ):
                wrong.append(f"{name} calls {called}")
    assert not wrong


def test_no_route_takes_an_address(stoker: Stoker) -> None:
    """TorchServe registered models from any URL, Ray's log_proxy fetched any. Routes take ids."""
    told = re.compile(r"url|uri|host|address|endpoint|target|proxy|callback|webhook|redirect", re.IGNORECASE)
    assert not [door.path for door in doors(stoker) if told.search("/".join(door.parameters)) or "proxy" in door.path]


class Trap:
    """A port of this machine that nobody may call."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def was_called(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def trap() -> Iterator[Trap]:
    made = Trap()
    yield made
    made.socket.close()


def test_no_address_in_a_request_is_called(stoker: Stoker, http: TestClient, trap: Trap) -> None:
    """Wherever a text may stand: refused, or kept as a text. The metadata service of a cloud is one such address."""
    url = f"http://127.0.0.1:{trap.port}/latest/meta-data"
    for uri in (url, f"gs://127.0.0.1:{trap.port}/x", f"file://127.0.0.1:{trap.port}/x", "file:///etc/passwd"):
        for body in (a_job_body("x", packageUris=[uri]), a_job_body("x", jobDir=uri)):
            assert http.post("/v1/projects/p/jobs", json=body).status_code == 400
        for field in ("source", "job_dir"):
            body = {"name": "x", "command": ["true"], field: uri}
            assert http.post("/stoker/v1/projects/p/jobs:run", json=body).status_code == 400
    for channel in ("webhook", "slack"):
        for target in (url, f"http://localhost:{trap.port}/", f"http://[::ffff:127.0.0.1]:{trap.port}/"):
            body = {"name": "x", "channel": channel, "target": target}
            assert http.post("/stoker/v1/alerts", json=body).status_code == 400
    for door in doors(stoker):
        for method in door.methods - {"DELETE"}:
            if not door.path.endswith("/stream"):
                headers = {"Referer": url, "X-Forwarded-Host": "x", "Forwarded": f"for={url}", "X-Original-URL": url}
                http.request(method, door.at(), params={"url": url, "target": url}, headers=headers, json={"url": url})
    assert not trap.was_called()


def test_a_container_image_is_a_name_that_the_site_gives_a_meaning(http: TestClient, trap: Trap) -> None:
    """Nothing is pulled: an image is looked up in a table, and refused where nothing stands in for it."""
    image = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": f"127.0.0.1:{trap.port}/x"},
    }
    body = {"jobId": "x", "trainingInput": {"region": "us-central1", **image}}
    assert http.post("/v1/projects/p/jobs", json=body).status_code == 400
    assert not trap.was_called()


def test_bodies_are_json_or_bytes(http: TestClient) -> None:
    """BentoML unpickled what came as `application/vnd.bentoml+pickle`."""
    for kind in ("application/vnd.bentoml+pickle", "application/x-python-pickle", "application/x-yaml", "text/xml"):
        answer = http.post("/v1/projects/p/jobs", content=b"cos\nsystem\n(S'true'\ntR.", headers={"Content-Type": kind})
        assert answer.status_code == 415, kind
