"""What is fuzzed: everything that reads what somebody else has written, each with inputs to begin with.

A target takes bytes. It may refuse them by an error of ours and in no other way: whatever else it raises is a find, and so is an
answer of 500, or one that takes longer than a few seconds.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.types import ASGIApp

from stoker.api.field_mask import read_mask
from stoker.api.filters import read_filter
from stoker.app import Stoker, build
from stoker.client.job_file import read_job_file
from stoker.config import read_config
from stoker.control.submission import Submission
from stoker.core.changes import Open
from stoker.core.errors import StokerError
from stoker.core.job import Attempt, Placement, Replica, Request
from stoker.core.spec import Program
from stoker.engines.local.replica_log import read_log
from stoker.gpu.drivers.fake import FakeDriver
from stoker.runtime.archive import unpack_source
from stoker.runtime.errors import CannotStart
from stoker.site.site_file import parse_site
from stoker.store.log_file import read_lines
from tests.api.bodies import PACKAGE
from tests.builders import a_spec
from tests.property.doors import ML, VERTEX
from tests.security.table import ask_all, bearer, patient

Target = Callable[[bytes], None]
EXPECTED = (StokerError, CannotStart)
LARGEST_INPUT_BYTES = 16 << 10


@dataclass(frozen=True)
class Site:
    """A Stoker at rest, with a job of which one replica may speak; and a folder for files."""

    stoker: Stoker
    app: ASGIApp
    folder: Path


@contextmanager
def a_site() -> Iterator[Site]:
    """Made for one run, and gone after it."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-fuzz-"))
    flags = {
        "home": str(folder / "home"),
        "hold": True,
        "fake": "10x4xT4,3xn1-highmem-8",
        "images": {"*": "python3 -c pass"},
    }
    (folder / "home").mkdir()
    made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
    try:
        made.loop.tick()
        with made.services.files.write(PACKAGE) as file:
            file.write(b"a package")
        spec = replace(a_spec(), program=Program(command=("true",)))
        made.services.commands.submit(
            Submission("p", "j", spec, request=Request(dialect="x", body="{}"), labels={}, owner="u")
        )
        attempt = Attempt(
            id="p/j.1",
            job="p/j",
            number=1,
            engine="local",
            placements=(Placement(role="chief", index=0, node="local"),),
            placed_at=0.0,
            replicas=(Replica(role="chief", index=0),),
        )
        made.store.commit([Open(attempt=attempt)], by="loop")
        yield Site(made, patient(made), folder)
    finally:
        made.loop.stop()
        made.store.close()
        shutil.rmtree(folder, ignore_errors=True)


def a_request(site: Site, method: str, path: str, content: bytes, **headers: str) -> None:
    """Send a request; an answer of 500 is a find."""
    own = path.startswith("/stoker/replica/")
    token = site.stoker.tokens.of_attempt("p/j.1") if own else site.stoker.tokens.token
    ((status, body),) = ask_all(site.app, [(method, path, {**headers, **bearer(token)})], content)
    assert status != 500 and status < 600, f"{method} {path}: {status} {body}"


def _job_file(site: Site) -> Target:
    path = site.folder / "config.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        json.dumps(read_job_file(path).body)

    return read


def _archive(site: Site) -> Target:
    path, target = site.folder / "source.zip", site.folder / "target"

    def unpack(data: bytes) -> None:
        path.write_bytes(data)
        before = {p for p in site.folder.iterdir()}
        try:
            unpack_source(str(path), str(target))
        finally:
            shutil.rmtree(target, ignore_errors=True)
            assert {p for p in site.folder.iterdir()} <= before, "something was written beside the target"

    return unpack


def _log_file(site: Site) -> Target:
    path = site.folder / "log"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for line in read_lines(path):
            json.dumps([line.offset, line.text, line.replica, line.time])

    return read


def _replica_log(site: Site) -> Target:
    path = site.folder / "replica.jsonl"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for line in read_log(str(path), 0):
            json.dumps(line)

    return read


def _text(read: Callable[[str], object]) -> Callable[[Site], Target]:
    def target(_: Site) -> Target:
        return lambda data: (read(data.decode(errors="surrogateescape")), None)[1]

    return target


def _body(method: str, path: str, **headers: str) -> Callable[[Site], Target]:
    def target(site: Site) -> Target:
        return lambda data: a_request(site, method, path, data, **headers)

    return target


def _query(*names: str, path: str) -> Callable[[Site], Target]:
    """One parameter after the other, parted by NUL."""

    def target(site: Site) -> Target:
        def ask(data: bytes) -> None:
            parts = data.split(b"\0")
            query = "&".join(f"{name}={_quoted(part)}" for name, part in zip(names, parts, strict=False))
            a_request(site, "GET", f"{path}?{query}", b"")

        return ask

    return target


def _header(name: str, method: str, path: str) -> Callable[[Site], Target]:
    def target(site: Site) -> Target:
        def ask(data: bytes) -> None:
            text = "".join(chr(byte) if 32 <= byte < 127 else " " for byte in data)
            a_request(site, method, path, b"", **{name: text})

        return ask

    return target


def _quoted(part: bytes) -> str:
    return "".join(f"%{byte:02x}" for byte in part)


def _a_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/b.py", b"print(1)\n" * 20)
        file.writestr("c.txt", b"")
    return made.getvalue()


def _a_tar(form: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=form) as file:
        info = tarfile.TarInfo("p/" + "a" * 120)
        info.size = 3
        file.addfile(info, io.BytesIO(b"abc"))
    return made.getvalue()


def _json(*values: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


_LINE = {"n": 1, "t": 1.5, "s": "out", "m": "hello"}
_REPORT = {"seen": "UP", "exit_code": 0, "addresses": ["h:1"], "message": "m", "out_of_memory": False, "restarts": 1}
_YAML = (
    b"trainingInput:\n  scaleTier: CUSTOM\n  masterType: n1-standard-4\n  args: ['--a', \"b\"]\n  region: us-central1\n"
)
_SITE = b'policy = "priority"\n[queues.a]\nweight = 2\ncohort = "c"\n[queues.a.quotas.NVIDIA_TESLA_T4]\nnominal = 4\n'
_RELATED = (
    b'--b\r\nContent-Type: application/json\r\n\r\n{"name": "x"}\r\n'
    b"--b\r\nContent-Type: text/plain\r\n\r\nabc\r\n--b--\r\n"
)
_BATCH = (
    b"--b\r\nContent-Type: application/http\r\nContent-ID: <1>\r\n\r\n"
    b"GET /storage/v1/b/some-bucket/o HTTP/1.1\r\n\r\n\r\n--b--\r\n"
)
_RUN = {"name": "x", "command": ["true"], "env": {"A": "b"}, "gpus": 1, "gpu_type": "T4", "labels": {"a": "b"}}
_FILTER = b'state=FAILED AND (labels.a:"b" OR NOT createTime>"2020-01-01T00:00:00Z")'
_ENTRIES = {
    "resourceNames": ["projects/p"],
    "filter": 'resource.labels.job_id="j"',
    "orderBy": "timestamp desc",
    "pageSize": 3,
}
_STORED = b'{"n":1,"a":"p/j.1","r":"chief-0","t":1.5,"s":"out","at":1500000,"m":"hello"}\n'
_OBJECTS = "/storage/v1/b/some-bucket/o"

TARGETS: dict[str, tuple[Callable[[Site], Target], tuple[bytes, ...]]] = {
    "job file": (_job_file, (_YAML, b"a: &a [*a]", b"x: !!binary AAAA")),
    "site file": (_text(parse_site), (_SITE,)),
    "archive": (_archive, (_a_zip(), _a_tar(tarfile.PAX_FORMAT), _a_tar(tarfile.GNU_FORMAT))),
    "log file": (_log_file, (_STORED * 3,)),
    "replica's log": (_replica_log, _json(_LINE)),
    "replica's lines": (_body("POST", "/stoker/replica/v1/p/j.1/chief-0/lines"), _json({"lines": [_LINE]})),
    "replica's report": (
        _body("POST", "/stoker/replica/v1/p/j.1/chief-0/report"),
        _json(_REPORT, {**_REPORT, "lines": [_LINE]}),
    ),
    "v1 job": (_body("POST", "/v1/projects/p/jobs"), _json(*ML.bodies)),
    "vertex job": (_body("POST", VERTEX.path("p")), _json(*VERTEX.bodies)),
    "command": (_body("POST", "/stoker/v1/projects/p/jobs:run"), _json(_RUN)),
    "dry run": (_body("POST", "/stoker/v1/projects/p/jobs:dryRun"), _json(*ML.bodies)),
    "token": (
        _body("POST", "/stoker/v1/tokens"),
        _json({"name": "ada", "days": 1, "projects": ["p"], "buckets": ["bbb"]}),
    ),
    "log entries": (_body("POST", "/v2/entries:list"), _json(_ENTRIES)),
    "filter": (_text(read_filter), (_FILTER, b"a=b", b'-jobId:"x*"')),
    "field mask": (_text(read_mask), (b"a,b(c,d/e),*", b"items(name,size)")),
    "job list": (
        _query("filter", "pageSize", "pageToken", "fields", path="/v1/projects/p/jobs"),
        (_FILTER + b"\0003\0\0jobs(jobId)",),
    ),
    "object list": (
        _query("prefix", "delimiter", "startOffset", "endOffset", "pageToken", "maxResults", "fields", path=_OBJECTS),
        (b"a\0/\0a\0z\0\0005\0items(name)",),
    ),
    "object metadata": (
        _body("PATCH", f"{_OBJECTS}/trainer-0.0.0.tar.gz"),
        _json({"metadata": {"a": "b"}, "contentType": "x/y"}),
    ),
    "compose": (_body("POST", f"{_OBJECTS}/x/compose"), _json({"sourceObjects": [{"name": "a", "generation": 1}]})),
    "upload": (
        _body(
            "POST",
            f"/upload{_OBJECTS}?uploadType=multipart",
            **{"Content-Type": "multipart/related; boundary=b", "Content-Length": "9"},
        ),
        (_RELATED, _RELATED.replace(b"\r\n", b"\n")),
    ),
    "batch": (_body("POST", "/batch/storage/v1", **{"Content-Type": "multipart/mixed; boundary=b"}), (_BATCH,)),
    "range": (
        _header("Range", "GET", f"{_OBJECTS}/trainer-0.0.0.tar.gz?alt=media"),
        (b"bytes=0-3", b"bytes=-2", b"bytes=1-"),
    ),
    "content range": (
        _header("Content-Range", "PUT", f"/upload{_OBJECTS}?upload_id={'x' * 43}"),
        (b"bytes 0-3/4", b"bytes */4"),
    ),
    "content type": (_header("Content-Type", "POST", "/batch/storage/v1"), (b"multipart/mixed; boundary='x'",)),
}
"""Name → what makes the target for a site, and inputs to begin with."""


def run(target: Target, data: bytes) -> None:
    """One execution. What is raised is a find."""
    with suppress(*EXPECTED):
        target(data[:LARGEST_INPUT_BYTES])
