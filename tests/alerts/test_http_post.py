"""A POST to a place that somebody has named, to a real server on loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.alerts.channel import Means, NotDelivered
from stoker.alerts.http_post import check_url, post, shown_url
from stoker.core.errors import BadSpec

from .receivers import LOOPBACK, a_certificate, a_receiver, resolves_to

OPEN = Means(networks=LOOPBACK)
PUBLIC = resolves_to("8.8.8.8")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "'nothing' is no scheme"),
        ("example.org/hook", "no scheme"),
        ("ftp://example.org/", "'ftp' is no scheme"),
        ("file:///etc/passwd", "'file' is no scheme"),
        ("gopher://x/_POST", "no scheme"),
        ("http://", "names no host"),
        ("http:///x", "names no host"),
        ("http://:80/", "names no host"),
        ("http://x:0/", "names no host"),
        ("http://x:99999/", "no URL"),
        ("http://x:y/", "no URL"),
        ("http://[::1/", "no URL"),
        ("http://user:hunter2@example.org/", "no user or password"),
        ("http://user@example.org/", "no user or password"),
        ("http://example.org/#top", "after|follows a #"),
        ("http://example.org/a b", "no spaces"),
        ("http://example.org/\r\nX: y", "no spaces"),
        ("http://exämple.org/", "ASCII"),
        ("http://example.org/" + "x" * 2000, "2000 characters"),
    ],
)
def test_what_is_no_url_is_told_without_repeating_it(url: str, problem: str) -> None:
    with pytest.raises(BadSpec, match=problem) as found:
        check_url(url, Means(resolve=PUBLIC))
    assert [violation.field for violation in found.value.violations] == ["target"]
    assert "hunter2" not in str(found.value)
    with pytest.raises(NotDelivered):
        post(url, b"", {}, Means(resolve=PUBLIC))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]:80/",
        "https://169.254.169.254/latest/meta-data/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0/",
        "http://localhost:7077/",
        "http://10.0.0.1/",
    ],
)
def test_what_is_not_public_is_refused_when_it_is_added_and_when_it_is_sent(url: str) -> None:
    with pytest.raises(BadSpec, match="not a public address"):
        check_url(url, Means())
    with pytest.raises(NotDelivered, match="not a public address"):
        post(url, b"", {}, Means())


def test_a_name_without_an_address_is_told() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(BadSpec, match=r"nowhere\.test has no address: Name or service not known"):
        check_url("https://nowhere.test/", Means(resolve=unknown))
    with pytest.raises(NotDelivered, match=r"nowhere\.test has no address"):
        post("https://nowhere.test/", b"", {}, Means(resolve=unknown))


def test_a_name_that_leads_elsewhere_after_it_was_added_is_refused() -> None:
    """DNS rebinding: public when it is looked at, loopback when it is delivered to."""
    with a_receiver() as receiver:
        answers = iter([["8.8.8.8"], ["127.0.0.1"]])
        means = Means(resolve=lambda host, port: next(answers))
        url = f"http://rebound.test:{receiver.port}/"
        check_url(url, means)
        with pytest.raises(NotDelivered, match=r"rebound\.test leads to 127\.0\.0\.1, which is not a public"):
            post(url, b"{}", {}, means)
        assert receiver.posted == []


def test_the_address_that_was_checked_is_the_one_that_is_connected_to() -> None:
    """The name is not looked up a second time, and the Host header is the name's."""
    asked: list[str] = []

    def once(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with a_receiver() as receiver:
        url = f"http://hook.test:{receiver.port}/a/b?c=d"
        assert post(url, b"{}", {"X-Y": "z"}, Means(networks=LOOPBACK, resolve=once)) == "200 OK: thanks"
    (posted,) = receiver.posted
    assert asked == ["hook.test"]
    assert (posted.path, posted.body, posted.headers["host"]) == ("/a/b?c=d", b"{}", f"hook.test:{receiver.port}")
    assert posted.headers["x-y"] == "z"


def test_of_several_addresses_one_that_answers_will_do() -> None:
    with a_receiver() as receiver:
        several = Means(
            networks=LOOPBACK, resolve=resolves_to("127.0.0.7", "127.0.0.1")
        )  # it listens on the latter alone
        assert post(f"http://hook.test:{receiver.port}/", b"{}", {}, several) == "200 OK: thanks"
        none = Means(networks=LOOPBACK, resolve=resolves_to("127.0.0.7", "127.0.0.8"))
        with pytest.raises(NotDelivered, match="Connection refused"):
            post(f"http://hook.test:{receiver.port}/", b"{}", {}, none)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, "500 Internal Server Error: thanks"),
        (404, "404 Not Found: thanks"),
        (302, "redirects are not followed"),
    ],
)
def test_only_success_is_success(status: int, said: str) -> None:
    with a_receiver(statuses=[status], headers={"Location": "/elsewhere"}) as receiver:
        with pytest.raises(NotDelivered, match=said):
            post(receiver.url(), b"{}", {}, OPEN)
        assert [posted.path for posted in receiver.posted] == ["/hook"]


def test_of_an_answer_the_beginning_is_kept_on_one_line() -> None:
    with a_receiver(says=b"a\r\nb\x1b[31m\xff" + b"x" * 100_000) as receiver:
        said = post(receiver.url(), b"{}", {}, OPEN)
    assert said.startswith("200 OK: a b [31m") and len(said) < 250 and said.isprintable()


def test_with_tls_the_name_has_to_be_the_certificates(tmp_path: Path) -> None:
    server, client = a_certificate(tmp_path)
    loopback = Means(networks=LOOPBACK, resolve=resolves_to("127.0.0.1"))
    with a_receiver(tls=server) as receiver:
        assert post(f"https://hook.test:{receiver.port}/", b"{}", {}, loopback, client) == "200 OK: thanks"
        with pytest.raises(NotDelivered, match="certificate is not good: Hostname mismatch"):
            post(f"https://other.test:{receiver.port}/", b"{}", {}, loopback, client)
        with pytest.raises(NotDelivered, match="certificate is not good: self-signed"):
            post(f"https://hook.test:{receiver.port}/", b"{}", {}, loopback)
        assert len(receiver.posted) == 1


@contextmanager
def a_slow_server(says: bytes) -> Iterator[int]:
    """Says something a byte at a time, for as long as somebody listens."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection:
                for byte in says * 1000:
                    try:
                        connection.sendall(bytes([byte]))
                    except OSError:
                        break
                    if is_over.wait(0.05):
                        break

        thread = threading.Thread(target=trickle)
        thread.start()
        yield listening.getsockname()[1]
        is_over.set()
        thread.join()


@pytest.mark.parametrize("says", [b"HTTP/1.1 200 OK\r\nX: y", b"x", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 9000])
def test_who_trickles_is_broken_off(says: bytes) -> None:
    began = time.monotonic()
    with a_slow_server(says) as port, pytest.raises(NotDelivered, match=r"within 0\.3 s"):
        post(f"http://127.0.0.1:{port}/", b"{}", {}, Means(networks=LOOPBACK, seconds=0.3))
    assert time.monotonic() - began < 5


def test_what_is_not_http_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"220 mail.test ESMTP\r\n")
                connection.recv(65536)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NotDelivered, match=r"not HTTP \(BadStatusLine\)"):
            post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}", {}, OPEN)
        thread.join()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(NotDelivered, match="Connection refused"):
        post(f"http://127.0.0.1:{port}/", b"{}", {}, OPEN)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.slack.com/services/T0/B0/secret", "https://hooks.slack.com/…"),
        ("https://example.org", "https://example.org"),
        ("https://example.org:8080/?token=secret", "https://example.org:8080/…"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown
