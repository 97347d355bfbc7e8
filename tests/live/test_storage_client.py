"""The real client of Cloud Storage, unmodified: google-cloud-storage, against a real server, which is killed in the middle."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed, RequestRangeNotSatisfiable
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption
from google.cloud.storage.retry import DEFAULT_RETRY

from tests.conftest import Server, wait_until

pytestmark = pytest.mark.live
FLAGS = ("--no-auth", "--hold")  # its anonymous credentials send no token
CHUNK_BYTES = 256 << 10
LARGE = os.urandom(20 * CHUNK_BYTES + 17)


def a_client(url: str) -> storage.Client:
    options = {"api_endpoint": url}
    return storage.Client(project="real-client", credentials=AnonymousCredentials(), client_options=options)


@pytest.fixture
def client(server: Server) -> Iterator[storage.Client]:
    made = a_client(server.found.url)
    yield made
    made.close()


@pytest.fixture
def bucket(client: storage.Client, request: pytest.FixtureRequest) -> storage.Bucket:
    """A bucket of the test's own."""
    return client.get_bucket(request.function.__name__.replace("_", "-")[:60].rstrip("-"))


def test_the_emulator_variable_is_enough(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.found.url)
    made = storage.Client(project="p", credentials=AnonymousCredentials()).bucket("by-variable").blob("a")
    made.upload_from_string("content")
    assert made.download_as_text() == "content"


@pytest.mark.parametrize("name", ["plain", "a/b c.txt", "ü/ß?#%25 x&y+z", "100%", "emoji-😀", "sp ace/ /x"])
def test_strings_under_any_name(client: storage.Client, name: str) -> None:
    bucket = client.bucket("any-name")
    blob = bucket.blob(name)
    blob.metadata = {"k": "v"}
    blob.upload_from_string(f"content of {name}", content_type="text/x")
    found = bucket.get_blob(name)
    assert found is not None and (found.name, found.content_type, found.metadata) == (name, "text/x", {"k": "v"})
    assert (found.generation, found.md5_hash, found.crc32c) == (blob.generation, blob.md5_hash, blob.crc32c)
    assert found.download_as_text() == f"content of {name}"
    assert name in [blob.name for blob in client.list_blobs(bucket)]


def test_files_and_the_folder_that_programs_see(bucket: storage.Bucket, server: Server, tmp_path: Path) -> None:
    (tmp_path / "up").write_bytes(LARGE)
    bucket.blob("d/large").upload_from_filename(tmp_path / "up", checksum="md5")
    folder = server.home / "buckets/gs" / bucket.name
    assert (folder / "d/large").read_bytes() == LARGE
    (folder / "d/model").write_bytes(LARGE[::-1])  # as a program does
    for checksum in ("md5", "crc32c", "auto", None):
        bucket.blob("d/model").download_to_filename(tmp_path / "down", checksum=checksum)
        assert (tmp_path / "down").read_bytes() == LARGE[::-1]
    blob = bucket.get_blob("d/model")
    assert blob is not None and blob.size == len(LARGE) and blob.md5_hash


@pytest.mark.parametrize("content", [b"", b"x", LARGE[:CHUNK_BYTES], LARGE], ids=len)
def test_chunks(bucket: storage.Bucket, content: bytes) -> None:
    blob = bucket.blob("chunks", chunk_size=CHUNK_BYTES)
    blob.upload_from_file(io.BytesIO(content))
    assert blob.size == len(content) and bucket.blob("chunks").download_as_bytes() == content
    assert bucket.blob("chunks", chunk_size=CHUNK_BYTES).download_as_bytes() == content


def test_a_stream_of_no_known_size(bucket: storage.Bucket) -> None:
    with bucket.blob("stream").open("wb", chunk_size=CHUNK_BYTES) as file:
        for at in range(0, len(LARGE), 100_000):
            file.write(LARGE[at : at + 100_000])
    with bucket.blob("stream").open("rb") as file:
        assert file.read() == LARGE


def test_ranges(bucket: storage.Bucket) -> None:
    blob = bucket.blob("ranges")
    blob.upload_from_string(LARGE)
    assert blob.download_as_bytes(start=10, end=19) == LARGE[10:20]
    assert blob.download_as_bytes(start=len(LARGE) - 5) == LARGE[-5:]
    assert blob.download_as_bytes(start=-5) == LARGE[-5:]
    with pytest.raises(RequestRangeNotSatisfiable):
        blob.download_as_bytes(start=len(LARGE))


def test_listing(client: storage.Client, bucket: storage.Bucket) -> None:
    for name in ("a/1", "a/b/2", "a/b/3", "c"):
        bucket.blob(name).upload_from_string(name)
    assert [b.name for b in client.list_blobs(bucket)] == ["a/1", "a/b/2", "a/b/3", "c"]
    assert [b.name for b in client.list_blobs(bucket, page_size=1)] == ["a/1", "a/b/2", "a/b/3", "c"]
    level = client.list_blobs(bucket, prefix="a/", delimiter="/")
    assert [b.name for b in level] == ["a/1"] and level.prefixes == {"a/b/"}
    assert [b.name for b in client.list_blobs(bucket, start_offset="a/b/3", max_results=1)] == ["a/b/3"]
    assert bucket.name in [b.name for b in client.list_buckets()]


def test_delete(bucket: storage.Bucket) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string("content")
    assert blob.exists()
    blob.delete()
    assert not blob.exists()
    for use in (blob.delete, blob.download_as_bytes, blob.reload):
        with pytest.raises(NotFound):
            use()


def test_preconditions(bucket: storage.Bucket) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string("first", if_generation_match=0)
    for content in ("second", LARGE * 2):  # by multipart, and by chunks
        with pytest.raises(PreconditionFailed):
            bucket.blob("a").upload_from_string(content, if_generation_match=0)
    generation = blob.generation
    blob.upload_from_string("third", if_generation_match=generation)
    assert blob.generation > generation
    with pytest.raises(PreconditionFailed):
        bucket.blob("a").delete(if_generation_match=generation)
    with pytest.raises(NotFound):
        bucket.blob("a", generation=generation).download_as_bytes()


def test_metadata_and_copies(bucket: storage.Bucket) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string("one")
    blob.metadata, blob.content_type = {"k": "v"}, "text/x"
    blob.patch()
    copied = bucket.copy_blob(blob, bucket, "b")
    assert (copied.metadata, copied.content_type, blob.metageneration) == ({"k": "v"}, "text/x", 2)
    rewritten = bucket.blob("c")
    assert rewritten.rewrite(blob) == (None, 3, 3)
    assert bucket.rename_blob(copied, "d").name == "d" and bucket.move_blob(rewritten, "e").name == "e"
    composed = bucket.blob("f")
    composed.compose([bucket.blob("d"), bucket.blob("e")])
    assert composed.download_as_bytes() == b"oneone"
    assert sorted(b.name for b in bucket.list_blobs()) == ["a", "d", "e", "f"]


def test_a_batch(client: storage.Client, bucket: storage.Bucket) -> None:
    blobs = [bucket.blob(f"d/{n} ü") for n in range(5)]
    for blob in blobs:
        blob.upload_from_string("content")
    with client.batch():
        for blob in blobs[:4]:
            bucket.delete_blob(blob.name)
    assert [b.name for b in bucket.list_blobs()] == ["d/4 ü"]
    with pytest.raises(NotFound), client.batch():
        bucket.delete_blob("none")


def test_buckets(client: storage.Client) -> None:
    made = client.create_bucket("made-by-client")
    with pytest.raises(Conflict):
        client.create_bucket("made-by-client")
    made.delete()


def test_a_damaged_download_is_noticed(bucket: storage.Bucket, server: Server) -> None:
    """The hash that we send is the content's: a content that does not fit it is refused by the client."""
    blob = bucket.blob("a")
    blob.upload_from_string(LARGE)
    path = server.home / "buckets/gs" / bucket.name / "a"
    before = path.stat()
    with open(path, "r+b") as file:
        file.write(b"damaged by a disk that tells nobody")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataCorruption):
        bucket.blob("a").download_as_bytes()


class Cutter:
    """A way to the server that is cut off once, after so many bytes."""

    def __init__(self, url: str, after: int) -> None:
        self._target = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
        self._left: int | None = after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.cuts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listening.getsockname()[1]
        return port

    def close(self) -> None:
        """No further connections."""
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with source, target:
            try:
                while data := source.recv(65536):
                    if is_request and self._left is not None:
                        self._left -= len(data)
                        if self._left < 0:
                            self._left, self.cuts = None, self.cuts + 1
                            source.shutdown(socket.SHUT_RDWR)
                            target.shutdown(socket.SHUT_RDWR)
                            return
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                return


@pytest.mark.parametrize("asks", [False, True], ids=["sends the chunk again", "asks how far it came"])
def test_a_dropped_connection_is_taken_up_again(server: Server, asks: bool) -> None:
    client = a_client(server.found.url)
    cutter = Cutter(server.found.url, after=3 << 20)
    upload, _ = an_upload(client, "dropped", LARGE, 8 * CHUNK_BYTES)
    client._http.headers["Host"] = urlsplit(server.found.url).netloc  # the guard wants to hear its own name
    upload._resumable_url = at_port(upload.resumable_url, cutter.port)
    if asks:
        upload._retry_strategy = None
        with pytest.raises(requests.ConnectionError):
            while not upload.finished:
                upload.transmit_next_chunk(client._http)
        wait_until(lambda: upload.recover(client._http) or upload.bytes_uploaded > 8 * CHUNK_BYTES)
        assert upload.bytes_uploaded < 16 * CHUNK_BYTES, "what came of the chunk is kept"
    while not upload.finished:
        upload.transmit_next_chunk(client._http)
    assert cutter.cuts == 1
    cutter.close()
    assert a_client(server.found.url).bucket("dropped").blob("large").download_as_bytes() == LARGE


def test_a_killed_server_is_taken_up_again(server: Server) -> None:
    """The upload's own address holds for the next server, too: it is in the home."""
    client = a_client(server.found.url)
    upload, _ = an_upload(client, "killed", LARGE, CHUNK_BYTES)
    for _ in range(5):
        upload.transmit_next_chunk(client._http)
    server.restart(kill=True)
    client = a_client(server.found.url)
    upload._resumable_url = at_port(upload.resumable_url, urlsplit(server.found.url).port)
    upload._invalid = True
    upload.recover(client._http)
    assert upload.bytes_uploaded == 5 * CHUNK_BYTES
    while not upload.finished:
        upload.transmit_next_chunk(client._http)
    blob = client.bucket("killed").get_blob("large")
    assert blob is not None and blob.download_as_bytes() == LARGE
    assert blob.md5_hash == blob_md5(LARGE)


def an_upload(client: storage.Client, bucket: str, content: bytes, chunk_bytes: int) -> tuple[Any, Any]:
    """An upload whose chunks the test sends one by one."""
    blob = client.bucket(bucket).blob("large", chunk_size=chunk_bytes)
    return blob._initiate_resumable_upload(client, io.BytesIO(content), None, len(content), retry=DEFAULT_RETRY)


def at_port(url: str, port: int | None) -> str:
    """The same address at another port."""
    return urlsplit(url)._replace(netloc=f"127.0.0.1:{port}").geturl()


def blob_md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()
