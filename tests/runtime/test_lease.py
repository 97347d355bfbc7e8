"""The lease of a replica: who renews it, when it is over, and that it stays so."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stoker.runtime.lease import Lease
from stoker.runtime.server import Refused, Unacceptable, Unreachable

SECONDS = 60.0


class Answers:
    """A server that says what the test wants, on a clock of the test's."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.says: dict[str, Any] | Exception = {}
        self.takes_seconds = 0.0
        self.stops = 0

    def beat(self, timeout: float) -> dict[str, Any]:
        self.now += self.takes_seconds
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def stop(self) -> None:
        self.stops += 1

    def lease(self, *witnesses: str) -> Lease:
        return Lease({"seconds": SECONDS, "witnesses": list(witnesses)}, self.beat, self.stop, lambda: self.now)


@pytest.fixture
def server() -> Answers:
    return Answers()


@pytest.fixture
def listening() -> Iterator[Callable[[], str]]:
    """Makes addresses that answer."""
    sockets: list[socket.socket] = []

    def listen() -> str:
        sockets.append(socket.create_server(("127.0.0.1", 0)))
        return f"127.0.0.1:{sockets[-1].getsockname()[1]}"

    yield listen
    for each in sockets:
        each.close()


def a_closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"127.0.0.1:{closed.getsockname()[1]}"


def test_without_a_lease_nothing_is_ever_over(server: Answers) -> None:
    lease = Lease(None, server.beat, server.stop, lambda: server.now)
    lease.start()
    lease.wait_for_grant(lambda: False)
    server.now += 1e9
    assert not lease.is_over


def test_the_server_renews_it(server: Answers) -> None:
    lease = server.lease()
    for _ in range(10):
        server.now += SECONDS - 1.0
        assert lease.renew() and not lease.is_over
    server.now += SECONDS
    assert lease.is_over


def test_a_server_that_is_away_alone_ends_nobody(server: Answers, listening: Callable[[], str]) -> None:
    lease = server.lease(a_closed_address(), listening())
    server.says = Unreachable("away")
    for _ in range(10):
        server.now += SECONDS - 1.0
        assert lease.renew() and not lease.is_over


def test_who_reaches_nobody_is_over_after_the_lease_and_not_before(server: Answers) -> None:
    address = a_closed_address()
    lease = server.lease(address)
    server.says = Unreachable("away")
    server.now += SECONDS - 0.001
    assert not lease.renew() and not lease.is_over
    server.now += 0.001
    assert lease.is_over
    assert lease.why == f"it reached neither the server nor {address} for 60 s and ended itself"


def test_of_a_witness_with_several_addresses_all_have_to_answer(server: Answers, listening: Callable[[], str]) -> None:
    """The engine's head, and its daemon on this node: without that one, the head does not vouch for the node."""
    server.says = Unreachable("away")
    assert server.lease(f"{listening()}+{listening()}").renew()
    assert not server.lease(f"{listening()}+{a_closed_address()}").renew()


def test_what_is_no_address_is_no_witness(server: Answers) -> None:
    server.says = Unreachable("away")
    assert not server.lease("nonsense").renew()


def test_it_counts_from_before_the_question(server: Answers) -> None:
    """For so the server does: it cannot have heard of us later than that."""
    lease = server.lease()
    server.takes_seconds = 20.0
    lease.renew()
    server.now += SECONDS - 20.0
    assert lease.is_over


def test_an_answer_that_comes_too_late_does_not_count(server: Answers) -> None:
    lease = server.lease()
    server.takes_seconds = SECONDS
    assert not lease.renew() and lease.is_over


def test_once_over_it_stays_over(server: Answers) -> None:
    lease = server.lease()
    server.now += SECONDS
    assert lease.is_over
    assert not lease.renew() and lease.is_over


def test_who_is_refused_is_over_at_once(server: Answers, listening: Callable[[], str]) -> None:
    lease = server.lease(listening())
    server.says = Refused("409")
    assert not lease.renew() and lease.is_over
    assert lease.why == "the server says that its attempt is over"


def test_a_server_that_understands_nothing_is_there_all_the_same(server: Answers) -> None:
    lease = server.lease()
    server.says = Unacceptable("400")
    server.now += SECONDS - 1.0
    assert lease.renew()


def test_an_answer_may_tell_to_stop(server: Answers) -> None:
    lease = server.lease()
    server.says = {"stop": True}
    assert lease.renew() and not lease.is_over
    assert server.stops == 1


def test_only_the_server_grants_it(server: Answers, listening: Callable[[], str]) -> None:
    """Who is started late, when its attempt is over already, runs nothing because a witness is there."""
    lease = server.lease(listening())
    server.says = Unreachable("away")
    assert lease.renew()
    asked: list[bool] = []
    lease.wait_for_grant(lambda: bool(asked.append(True)) or len(asked) > 3)
    assert len(asked) == 4, "it waits until it is told to give up"
    server.says = {}
    lease.renew()
    lease.wait_for_grant(lambda: False)
    assert not lease.is_over
