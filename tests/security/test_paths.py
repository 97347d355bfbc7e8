"""No path leads out: MLflow CVE-2023-1177, -2356, -2780, -6909, -6831, CVE-2024-1560, -1593, CVE-2026-2614, SGLang CVE-2026-7302.

Year after year the same hole was found again in another spelling. Here every spelling is sent to every route that takes a name,
with every method that it has, as it stands on the wire.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from stoker.app import Stoker
from tests.api.bodies import a_job_body
from tests.security.table import BASE, Door, ask_all, bearer, doors, patient

SECRET = "canary-outside-of-every-bucket"
CLIMBS = (
    *("..", "%2e%2e", ".%2e", "%252e%252e", "%25252e%25252e", "..;", "..;x=y", "..%00", "..%20", "...%2f.."),
    *("%c0%ae%c0%ae", "..%c0%af", "%uff0e%uff0e", "%ef%bc%8e%ef%bc%8e", "%e2%80%a5", "..%ef%bc%8f", "..%e2%88%95"),
)
SLASHES = ("/", "%2f", "%5c", "%252f", "%255c", "//", "/./")
ABSOLUTE = (
    *("/SECRET", "%2fSECRET", "//SECRET", "%5c%5chost%5cshare", "C:%5cSECRET", "C:/SECRET", "file:%2f%2f%2fSECRET"),
    *("%00/SECRET", "a%00/../../SECRET", "link/secret.txt", "file-link", "link/../../secret.txt", "link%2fsecret.txt"),
)
WHERE = {"name", "rest", "bucket", "scheme", "file", "job", "project", "number", "replica", "location", "upload_id"}


def spellings() -> list[str]:
    """Ways to name a file outside, as they stand on the wire."""
    found = [f"{climb}{slash}{climb}{slash}secret.txt" for climb in CLIMBS for slash in ("/", "%2f", "%5c")]
    found += [f"a{slash}..{slash}..{slash}secret.txt" for slash in SLASHES]
    return [*found, *ABSOLUTE]


@pytest.fixture
def outside(stoker: Stoker) -> Iterator[Path]:
    """A secret beside the buckets, and links to it in a bucket and in a job's directory."""
    buckets = stoker.config.home / "buckets" / "gs"
    for folder in ("some-bucket", "some-bucket/a", "some-bucket/out"):
        (buckets / folder).mkdir(parents=True)
    for place in (stoker.config.home, buckets, buckets.parent, buckets / "other"):
        place.mkdir(exist_ok=True)
        (place / "secret.txt").write_text(SECRET)
    for folder in (buckets / "some-bucket", buckets / "some-bucket" / "out"):
        (folder / "link").symlink_to(stoker.config.home)
        (folder / "file-link").symlink_to(stoker.config.home / "secret.txt")
        (folder / "mine.txt").write_text("mine")
    yield stoker.config.home


def everything_outside(home: Path) -> dict[str, bytes]:
    """Every file of the home that is not in the bucket, but for those that the server itself writes to."""
    own = ("stoker.db", "objects.db", "audit.log", "audit-refused.log")
    files = [path for path in home.rglob("*") if path.is_file() and not path.name.startswith(own)]
    bucket = re.compile(rf"{home}/buckets/gs/(some-bucket|link|a)/.*", re.DOTALL)  # a spelling may name a lawful bucket
    return {str(path): path.read_bytes() for path in files if not bucket.fullmatch(str(path))}


def asked_with(door: Door, spelling: str) -> list[str]:
    """The addresses of a route with a spelling in the place of each of its names."""
    parts = {"bucket": "some-bucket", "name": "mine.txt", "rest": "mine.txt"}
    places = [name for name in door.parameters if name in WHERE or door.path.endswith(":path}")]
    found = [door.at(**{**parts, name: spelling}) for name in dict.fromkeys(places)]
    if "upload" in door.path:
        found += [f"{door.at(**parts)}?upload_id={spelling}", f"{door.at(**parts)}?uploadType=media&name={spelling}"]
    if door.path.endswith("/o"):
        found += [f"{door.at(**parts)}?prefix={spelling}", f"{door.at(**parts)}?startOffset={spelling}&delimiter=/"]
    if "{rest" in door.path:
        found += [
            f"{door.at(**parts)}/{verb}/{spelling}"
            for verb in ("copyTo/b/some-bucket/o", "rewriteTo/b/some-bucket/o", "moveTo/o")
        ]
        found += [f"{door.path.split('{')[0]}some-bucket/o/{spelling}/rewriteTo/b/some-bucket/o/stolen"]
    return found


def test_no_spelling_leads_out_on_any_route_with_any_method(stoker: Stoker, outside: Path) -> None:
    """Nothing outside is read, written, listed or removed."""
    before = everything_outside(outside)
    shown, attempts = bearer(stoker.tokens.token), bearer(stoker.tokens.of_attempt("p/waits.1"))
    asked = [
        (method, address, attempts if door.path.startswith("/stoker/replica") else shown)
        for number, door in enumerate(doors(stoker))
        if WHERE & set(door.parameters) and not door.path.endswith(("/stream", "/join"))
        for spelling in spellings()[number % 9 :: 9 if "bucket" in door.parameters else 20]
        for address in asked_with(door, spelling)
        for method in sorted(door.methods)
    ]
    assert len(asked) > 500
    for (method, address, _), (status, body) in zip(asked, ask_all(patient(stoker), asked), strict=True):
        assert SECRET not in body and "root:" not in body and "SQLite" not in body, (method, address)
        assert status != 500, (method, address, body)
    assert everything_outside(outside) == before


def test_what_is_there_outside_is_not_told_from_what_is_not(stoker: Stoker, outside: Path) -> None:
    """A refusal that depends on it would be a way to look around."""
    asked = []
    for door in doors(stoker):
        if "bucket" in door.parameters and {"name", "rest"} & set(door.parameters):
            for spelling in ("..%2fsecret.txt", "link%2fsecret.txt", "%2fetc%2fpasswd", "..%2fother%2fsecret.txt"):
                for target in (spelling, spelling.replace("secret", "nobody").replace("passwd", "nobody")):
                    parts = {"bucket": "some-bucket", "name": target, "rest": target}
                    asked += [
                        (method, door.at(**parts), bearer(stoker.tokens.token)) for method in sorted(door.methods)
                    ]
    answers = ask_all(patient(stoker), asked)
    told: dict[tuple[str, str], set[tuple[int, str]]] = {}
    for (method, address, _), (status, body) in zip(asked, answers, strict=True):
        key = method, address.replace("nobody", "secret").replace("etc%2fsecret", "etc%2fpasswd")
        same = re.sub("nobody|passwd", "secret", body)
        told.setdefault(key, set()).add((status, same))
    assert not {key: found for key, found in told.items() if len(found) > 1}


def test_a_link_in_a_jobs_directory_shows_nothing(stoker: Stoker, http: TestClient, outside: Path) -> None:
    """A program may make links there: neither lists nor downloads follow them out."""
    with stoker.services.files.write("gs://some-bucket/trainer-0.0.0.tar.gz") as file:
        file.write(b"a package")
    body = {"name": "linked", "command": ["true"], "job_dir": "gs://some-bucket/out"}
    assert http.post("/stoker/v1/projects/p/jobs:run", json=body).status_code == 200
    found = http.get("/stoker/v1/projects/p/jobs/linked/artifacts").json()["artifacts"]
    assert [row["name"] for row in found] == ["mine.txt"]
    listed = http.get("/storage/v1/b/some-bucket/o").json()["items"]
    assert not [row for row in listed if "link" in row["name"]]
    for name in ("out/link/secret.txt", "out/file-link", "out/link/token"):
        assert http.get(f"/stoker/v1/files/gs/some-bucket/{name}").status_code == 400
        assert http.get(f"/storage/v1/b/some-bucket/o/{quote(name, safe='')}?alt=media").status_code == 400


FIELDS = [
    "gs://some-bucket/../secret.txt",
    "gs://some-bucket/link/secret.txt",
    "gs://../x",
    "gs://some-bucket/%2e%2e/secret.txt",
]
FIELDS += [
    "file:///etc/passwd",
    "http://169.254.169.254/latest",
    "gs://some-bucket/a\\..\\..\\secret.txt",
    "s3://../../etc/passwd",
]


@pytest.mark.parametrize("uri", FIELDS)
def test_no_field_of_a_job_leads_out_of_a_bucket(stoker: Stoker, http: TestClient, outside: Path, uri: str) -> None:
    position = stoker.store.position()
    for body in (a_job_body("x", packageUris=[uri]), a_job_body("x", jobDir=uri)):
        assert http.post("/v1/projects/p/jobs", json=body).status_code == 400
    for field in ("source", "job_dir"):
        answer = http.post("/stoker/v1/projects/p/jobs:run", json={"name": "x", "command": ["true"], field: uri})
        assert answer.status_code == 400
    assert stoker.store.position() == position


KERNEL = (
    "/proc/1/root/etc",
    "/proc/self/cwd/x",
    "/proc/self/environ",
    "//proc/1/root",
    "/sys/x",
    "/dev/shm/x",
    "/dev/null",
)


@pytest.mark.parametrize("path", [*KERNEL, "LINK", "LINK/etc"])
def test_nothing_below_what_the_kernel_makes_up_is_a_file_of_a_job(
    stoker: Stoker, http: TestClient, tmp_path: Path, path: str
) -> None:
    (tmp_path / "link").symlink_to("/proc/1/root")
    path, position = path.replace("LINK", str(tmp_path / "link")), stoker.store.position()
    for body in (a_job_body("x", packageUris=[path]), a_job_body("x", jobDir=path)):
        assert http.post("/v1/projects/p/jobs", json=body).status_code == 400
    for field in ("source", "job_dir"):
        answer = http.post("/stoker/v1/projects/p/jobs:run", json={"name": "x", "command": ["true"], field: path})
        assert answer.status_code == 400 and "/proc, /sys, /dev" in answer.text
    assert stoker.store.position() == position


def test_a_job_directory_that_becomes_a_link_out_of_files_shows_nothing(
    stoker: Stoker, http: TestClient, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    body = {"name": "x", "command": ["true"], "job_dir": str(folder)}
    assert http.post("/stoker/v1/projects/p/jobs:run", json=body).status_code == 200
    for target in (
        "/proc/1/root",
        "/proc/self/fd",
        str(folder),
        "/dev",
    ):  # whoever may write beside it may put one there
        folder.rmdir() if not folder.is_symlink() else folder.unlink()
        folder.symlink_to(target)
        assert http.get("/stoker/v1/projects/p/jobs/x").status_code == 200
        answer = http.get("/stoker/v1/projects/p/jobs/x/artifacts")
        assert answer.status_code == 400 or answer.json()["artifacts"] == []


def test_a_bucket_that_is_a_link_is_what_the_site_has_made_it(stoker: Stoker, http: TestClient, outside: Path) -> None:
    """A folder of buckets in which somebody else could make links would be theirs anyway; a link within one leads nowhere."""
    buckets = outside / "buckets" / "gs"
    os.symlink(buckets / "some-bucket", buckets / "some-bucket" / "out" / "inside")
    assert http.get("/stoker/v1/files/gs/some-bucket/out/inside/mine.txt").content == b"mine"


def test_names_that_end_in_dots_or_spaces_are_themselves(stoker: Stoker, http: TestClient) -> None:
    """On some systems `a.` is `a`: here each is a file of its own, and none is another's."""
    for name in ("a", "a.", "a ", "a..", "a;x", "a%20b", "\uff0e\uff0e"):
        path = f"/stoker/v1/files/gs/some-bucket/d/{quote(name)}"
        assert http.put(path, content=name.encode()).status_code == 200
    for name in ("a", "a.", "a ", "a..", "a;x", "a%20b"):
        assert http.get(f"/stoker/v1/files/gs/some-bucket/d/{quote(name)}").content == name.encode()


def test_what_is_served_is_never_a_page(stoker: Stoker) -> None:
    """ClearML CVE-2024-24594: what others upload must not run in a browser."""
    with TestClient(patient(stoker), BASE, headers=bearer(stoker.tokens.token)) as client:
        headers = {"Content-Type": "text/html"}
        page = b"<script>alert(1)</script>"
        client.post("/upload/storage/v1/b/some-bucket/o?uploadType=media&name=x.html", content=page, headers=headers)
        for path in (
            "/stoker/v1/files/gs/some-bucket/x.html",
            "/storage/v1/b/some-bucket/o/x.html?alt=media",
            "/download/storage/v1/b/some-bucket/o/x.html",
        ):
            answer = client.get(path)
            assert answer.content == page
            assert answer.headers["Content-Disposition"].startswith("attachment")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
