"""Names and files that a server should not open: pipes, paths of its own, and all that climbs."""

from __future__ import annotations

import io
import time
import zipfile
from urllib.parse import quote

import httpx

from .site import ATTACKER, Site, Tries, asking, in_threads, waits_for

_PIPES = """
import os, time
top = os.environ["STOKER_JOB_DIR"]
os.makedirs(top, exist_ok=True)
for n in range(64):
    os.mkfifo(f"{top}/pipe{n}")
print("pipes", flush=True)
time.sleep(600)
"""


def pipes(site: Site, seconds: float, tries: Tries) -> None:
    """FIFOs in a bucket, read, stated, hashed and listed by more requests than there are threads; then the server is ended."""
    assert site.run(ATTACKER, "pipes", _PIPES, job_dir="gs://evil-data/out").status_code == 200
    waits_for(lambda: "pipes" in site.printed(ATTACKER, "pipes"), "no pipes")
    doors = (
        ("GET", "/stoker/v1/files/gs/evil-data/out/pipe{n}"),
        ("HEAD", "/stoker/v1/files/gs/evil-data/out/pipe{n}"),
        ("GET", "/storage/v1/b/evil-data/o/out%2Fpipe{n}?alt=media"),
        ("GET", "/storage/v1/b/evil-data/o/out%2Fpipe{n}"),
        ("GET", "/storage/v1/b/evil-data/o"),
        ("POST", "/storage/v1/b/evil-data/o/out%2Fpipe{n}/copyTo/b/evil-data/o/copy"),
        ("PUT", "/stoker/v1/files/gs/evil-data/out/pipe{n}/x"),
    )
    with asking(site) as answered:

        def one(client: httpx.Client, n: int) -> None:
            method, path = doors[n % len(doors)]
            answer = client.request(method, path.format(n=n % 64))
            tries.note(f"{answer.status_code} for {method} {path}" if answer.status_code >= 500 else "")

        in_threads(site, 45, seconds - 5, one)
    tries.check(answered.at(0.99) < 1000, f"the server's state came late: {answered.summary}")
    began = time.monotonic()
    site.ask("admin", "POST", "/stoker/v1/shutdown")
    assert site.process is not None
    site.process.wait(30)
    tries.notes = f"{answered.summary}; ended in {time.monotonic() - began:.1f} s"


def plain_paths(site: Site, seconds: float, tries: Tries) -> None:
    """Files of the machine as source and as packages of a job, and as its directory."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("train.py", f"print({site.canary!r})")
    (site.private / "private.zip").write_bytes(archive.getvalue())
    (site.private / "pkg-0.1.tar.gz").write_bytes(b"x")
    asked = [
        *(
            {"source": path}
            for path in (f"{site.private}/private.zip", f"{site.home}/token", "/etc/shadow", "/dev/zero")
        ),
        *({"job_dir": path} for path in (str(site.private), str(site.home), "/etc", "/proc/1/root/etc", "/root")),
        *({"job_dir": f"gs://evil-data/{quote(path)}"} for path in ("../good-data", "..%2f..", "%2e%2e/x")),
    ]
    until, number = time.monotonic() + min(seconds, 20), 0
    while time.monotonic() < until and number < 200:
        body = asked[number % len(asked)]
        name = f"plain{number}"
        number += 1
        answer = site.run(ATTACKER, name, ["cat", "train.py"], **body)
        tries.check(400 <= answer.status_code < 500, f"{answer.status_code} for {body}")
        uri = str(next(iter(body.values())))
        spec = {"scaleTier": "BASIC", "region": "us-central1", "packageUris": [uri], "pythonModule": "train"}
        job = {"jobId": f"v1_{name}", "trainingInput": spec}
        answer = site.ask(ATTACKER, "POST", "/v1/projects/evil/jobs", json=job)
        tries.check(400 <= answer.status_code < 500, f"{answer.status_code} for packageUris {uri}")
    copied = [path for path in (site.home / "cache").rglob("*") if path.name in ("shadow", "token", "private.zip")]
    tries.check(not copied, f"copied: {copied}")


def traversal(site: Site, seconds: float, tries: Tries) -> None:
    """Names that climb, spelled in every way that was ever found."""
    climbs = (
        "..",
        "%2e%2e",
        ".%2e",
        "%252e%252e",
        "..;",
        "..%00",
        "%c0%ae%c0%ae",
        "%uff0e%uff0e",
        "..%5c",
        "%e2%80%a5",
    )
    slashes = ("/", "%2f", "%5c", "%252f", "//", "/./")
    targets = ("token", "replica.key", "logs", "stoker.db", "private/secret")
    doors = ("/stoker/v1/files/gs/evil-data/", "/storage/v1/b/evil-data/o/", "/stoker/v1/files/gs/", "/storage/v1/b/")
    names = [
        f"{door}{slash.join([climb] * depth)}{slash}{target}"
        for climb in climbs
        for slash in slashes
        for depth in (1, 2, 3, 4)
        for target in targets
        for door in doors
    ]

    def one(client: httpx.Client, n: int) -> None:
        path = names[n % len(names)] + ("?alt=media" if "/o/" in names[n % len(names)] else "")
        method = ("GET", "GET", "PUT", "DELETE", "HEAD")[n // len(names) % 5]
        answer = client.request(method, path)
        tries.note(site.gained(answer.text) or (f"500 for {path}" if answer.status_code == 500 else ""))

    in_threads(site, 4, min(seconds, 30), one)
    tries.check((site.private / "secret").read_text() == site.canary, "the secret has changed")


def replays(site: Site, seconds: float, tries: Tries) -> None:
    """Tokens of others, of attempts that have ended, and of none, on the routes of people and of replicas."""
    program = "import os; print(os.environ.get('STOKER_TOKEN', ''))"
    site.run(ATTACKER, "ended", program)
    site.wait(ATTACKER, "ended")
    found = sorted((site.home / "runs").glob("evil/ended.1/*/request.json"))
    shown = [site.tokens[ATTACKER], "", "x" * 43, site.tokens["admin"][:-1], site.tokens["admin"] + "x"]
    attempt = [
        text.split('"token": "')[1].split('"')[0] for text in (p.read_text() for p in found) if '"token": "' in text
    ]
    replica = "/stoker/replica/v1/evil/ended.1/chief-0"
    doors = [
        ("GET", "/stoker/v1/settings"),
        ("GET", "/stoker/v1/tokens"),
        ("POST", "/stoker/v1/shutdown"),
        ("GET", "/stoker/v1/projects/good/jobs"),
        ("GET", "/stoker/v1/files/gs/good-data/x"),
        ("POST", "/stoker/v1/nodes/x:cordon"),
    ]
    asked = [(token, method, path) for token in (*shown, *attempt) for method, path in doors]
    asked += [
        (t, "POST", f"{replica}/{verb}") for t in (*shown, *attempt) for verb in ("join", "lines", "report", "beat")
    ]
    with site.client(ATTACKER) as client:
        until = time.monotonic() + min(seconds, 15)
        for token, method, path in asked * 3:
            if time.monotonic() > until:
                break
            headers = {"Authorization": f"Bearer {token or '-'}"}
            answer = client.request(method, path, headers=headers, json={"lines": [], "seen": "UP"})
            is_in = answer.status_code == 200 and path != replica
            tries.note(site.gained(answer.text) or (f"{answer.status_code} for {method} {path}" if is_in else ""))
