"""Secrets stay where they are documented to be: Jupyter Server CVE-2022-24757, JupyterHub CVE-2021-41247.

Canaries are put wherever a secret may be: the home's own token, a user's, in the environment of the server, in that of a job.
After jobs that end well and badly, refusals, mistakes and a crash they are looked for in every file, process and answer.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import read_config
from tests.conftest import Server, wait_until

OF_THE_SERVER = "canary-of-the-servers-environment-8d1f"
OF_A_JOB = "canary-of-a-jobs-environment-52c0"
IN_A_QUERY = "canary-in-an-address-77ab"
ABOUT = [f"{name}{part}" for name in ("fine", "bad") for part in ("", "/story", "/logs", "/explain", "/metrics")]
COMMANDS = ("jobs describe fine --json", "logs bad", "why bad", "config list", "tokens list --json")
IN_A_BODY = "canary-in-a-refused-body-19ee"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose environment holds a secret."""
    home = tmp_path_factory.mktemp("home")
    config, flags = read_config({"STOKER_HOME": str(home)}), ("--port=0",)
    os.environ["SOME_API_KEY"] = OF_THE_SERVER
    try:
        found = embedded.start(config, flags)
    finally:
        del os.environ["SOME_API_KEY"]
    made = Server(home, found, Client(found.url, found.token), flags)
    yield made
    made.client.close()
    made.cli("down", "--cancel-jobs")


def holders(home: Path, secret: str) -> set[str]:
    """The files that hold a secret, as it is or in another guise, the database's own files and logs included."""
    guises = [secret, *(re.escape(secret),), secret.encode().hex()]
    found = set()
    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if any(guise.encode() in content for guise in guises):
                found.add(path.relative_to(home).as_posix())
    return found


def processes() -> dict[int, tuple[str, str]]:
    """Command line and environment of every process that we may look at."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(path / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")]
        except OSError:
            continue
        found[int(path.name)] = (texts[0], texts[1])
    return found


def test_no_canary_is_found_where_it_does_not_belong(site: Server, tmp_path: Path) -> None:
    made = site.client.create_token({"name": "ada"})
    secrets = {"home": site.found.token, "user": made["token"], "server": OF_THE_SERVER, "job": OF_A_JOB}
    ada = Client(site.found.url, made["token"])
    shown = []

    # 1. Jobs that end well, badly, and that run on.
    waits = "while [ ! -e enough ]; do sleep 0.05; done"
    for name, command in (
        ("fine", ["true"]),
        ("bad", ["sh", "-c", "echo no >&2; exit 3"]),
        ("runs", ["sh", "-c", waits]),
    ):
        ada.run("local", {"name": name, "command": command, "env": {"SOME_PASSWORD": OF_A_JOB}})
    wait_until(lambda: ada.details("local", "fine")["state"] == "SUCCEEDED")
    wait_until(lambda: ada.details("local", "bad")["state"] == "FAILED")
    wait_until(lambda: ada.details("local", "runs")["state"] == "RUNNING")

    # 2. Requests that are refused, and ones that should surprise the server.
    asked = httpx.Client(base_url=site.found.url, headers={"Authorization": f"Bearer {site.found.token}"})
    for method, path, content in (
        ("GET", f"/stoker/v1/status?access_token={IN_A_QUERY}", b""),
        ("POST", f"/v1/projects/p/jobs?key={IN_A_QUERY}", f'{{"{IN_A_BODY}": 1'.encode()),
        ("POST", "/stoker/v1/projects/p/jobs:run", json.dumps({"env": {"X": IN_A_BODY}, "command": 1}).encode()),
        ("DELETE", f"/stoker/v1/tokens/{IN_A_QUERY}", b""),
        ("GET", f"/nothing/{IN_A_QUERY}", b""),
    ):
        shown.append(asked.request(method, path, content=content).text)
    wrong = httpx.get(f"{site.found.url}/stoker/v1/status", headers={"Authorization": f"Bearer {IN_A_BODY}-wrong"})
    shown.append(wrong.text + str(wrong.headers))

    # 3. All that can be asked about them.
    for path in (
        *("status", "settings", "nodes", "queue", "jobs", "history", "tokens", "openapi.json"),
        *(
            f"projects/local/jobs/{name}{part}"
            for name in ("fine", "bad")
            for part in ("", "/story", "/logs", "/explain", "/metrics")
        ),
        *("projects/local/jobs/fine/artifacts", "projects/local/jobs"),
    ):
        answer = asked.get(f"/stoker/v1/{path}")
        assert answer.status_code == 200, path
        shown.append(answer.text + str(answer.headers))
    for words in (
        "status --json",
        "jobs describe fine --json",
        "logs bad",
        "why bad",
        "config list",
        "tokens list --json",
        "queue",
    ):
        ran = site.cli(*words.split())
        shown.append(ran.stdout + ran.stderr)
    for name, secret in secrets.items():
        assert not [text for text in shown if secret in text], name

    # 4. Processes: no command line holds any; an environment only that which was meant for it.
    table = processes()
    for name, secret in secrets.items():
        assert not [line for line, _ in table.values() if secret in line], name
    for name in ("home", "user"):
        assert not [pid for pid, (_, environ) in table.items() if secrets[name] in environ and pid != os.getpid()], name

    # 5. A crash, and all that lies on the disk afterwards.
    site.restart(kill=True)
    assert holders(site.home, secrets["home"]) == {"token"}
    assert holders(site.home, secrets["user"]) == set()
    assert holders(site.home, OF_THE_SERVER) == set()
    of_a_job = holders(site.home, OF_A_JOB)
    requests = {path.relative_to(site.home).as_posix() for path in site.home.glob("runs/local/*/*/request.json")}
    running = {path for path in requests if path.startswith("runs/local/runs.")}
    assert len(requests) == 3 and running <= of_a_job, "what runs may be asked for its variables again"
    assert of_a_job - running <= {"stoker.db", "stoker.db-wal", "stoker.db-shm"}, "what has ended keeps no secret"
    assert all(stat.S_IMODE((site.home / path).stat().st_mode) == 0o600 for path in requests)
    assert stat.S_IMODE(site.home.stat().st_mode) == 0o700
    for secret in (IN_A_BODY, IN_A_QUERY):
        assert holders(site.home, secret) <= {"audit.log"}, "a path is written down, its query and body are not"
    assert f"key={IN_A_QUERY}" not in (site.home / "audit.log").read_text()
    logs = [path for path in site.home.glob("*.log*")]
    assert len(logs) >= 2 and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in logs)
    asked.close()
    ada.close()


def test_a_replica_is_not_told_how_to_ask_the_server_as_its_user(site: Server) -> None:
    """Its environment has no variable of the server's own, and its request's token opens its attempt alone."""
    script = "import os, json; print(json.dumps(sorted(k for k in os.environ if k.startswith('STOKER_'))))"
    site.client.run("local", {"name": "looks", "command": [sys.executable, "-c", script]})
    wait_until(lambda: site.client.details("local", "looks")["state"] == "SUCCEEDED")
    lines = [event["text"] for event in site.client.logs("local", "looks") if event["kind"] == "log"]
    names = json.loads(next(line for line in lines if line.startswith("[")))
    assert not {"STOKER_TOKEN", "STOKER_HOME", "STOKER_URL"} & set(names)


def test_the_command_line_shows_no_token_that_it_was_given(site: Server) -> None:
    environment = {**site.environment, "STOKER_URL": site.found.url, "STOKER_TOKEN": IN_A_BODY, "STOKER_DEBUG": "1"}
    for words in (["status"], ["config", "list"], ["jobs", "list"], ["run", "--", "true"]):
        command = [sys.executable, "-m", "stoker.cli.main", *words]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=site.home)
        assert IN_A_BODY not in ran.stdout + ran.stderr, words
