"""No secret leaves its place: not in logs, process lists, programs' environments or answers."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from tests.cli.conftest import Cli
from tests.conftest import Server, wait_until


def process_table() -> dict[str, str]:
    """Process id → command line, of all that runs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found[path.name] = (path / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
    return found


def test_the_servers_token_is_in_its_file_alone(served: Cli, server: Server) -> None:
    token = server.found.token
    (served.folder / "x.py").write_text("import os, json\nprint(json.dumps(dict(os.environ)))\n")
    ran = served("run", "--name", "canary", "--", "python", "x.py", STOKER_TOKEN=token)
    assert ran.code == 0 and token not in ran.out + ran.err
    assert not [name for name in json.loads(ran.out) if name in ("STOKER_TOKEN", "STOKER_HOME", "STOKER_URL")]
    for words in ("logs canary", "jobs describe canary --json", "status --json", "config list --json", "up --json"):
        said = served(*words.split())
        assert token not in said.out + said.err, words
    holders = [p for p in server.home.rglob("*") if p.is_file() and token.encode() in p.read_bytes()]
    assert holders == [server.home / "token"]
    assert stat.S_IMODE((server.home / "token").stat().st_mode) == 0o600


def test_no_token_stands_in_the_process_list(served: Cli, server: Server) -> None:
    script = "while [ ! -e enough ]; do sleep 0.05; done"
    served("run", "--async", "--name", "listed_process", "--workers", "1", "--", "sh", "-c", script)
    wait_until(lambda: json.loads(served("jobs", "describe", "listed_process", "--json").out)["state"] == "RUNNING")
    requests = list((server.home / "runs/local/listed_process.1").glob("*/request.json"))
    secrets = {server.found.token, *(json.loads(path.read_text())["token"] for path in requests)}
    assert len(requests) == 2 and len(secrets) == 2
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in requests)
    assert not [line for line in process_table().values() if any(secret in line for secret in secrets)]
    served("jobs", "cancel", "listed_process")
    served("wait", "listed_process")


def test_a_program_cannot_ask_the_server_as_its_user(served: Cli, server: Server) -> None:
    program = "import os, urllib.request\nprint(sorted(k for k in os.environ if 'TOKEN' in k))\n"
    (served.folder / "x.py").write_text(program)
    assert served("run", "--name", "no_token", "--", "python", "x.py").out == "[]\n"
    assert os.environ.get("STOKER_TOKEN") is None
