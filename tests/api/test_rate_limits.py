"""Who asks too often waits, and nobody else."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from starlette.testclient import TestClient

from stoker.api.app import make_app
from stoker.api.auth import Guard, allowed_hosts
from stoker.api.rate_limits import Requests, UnderWay, WrongTokens
from stoker.app import Stoker
from stoker.core.errors import TooMany

BASE = "http://127.0.0.1:7077"


@dataclass
class Moment:
    """A clock."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


def pauses(wrong: WrongTokens, address: str, times: int) -> list[float]:
    """What each of so many wrong tokens was told to wait."""
    told = []
    for _ in range(times):
        try:
            wrong.note(address)
            told.append(0.0)
        except TooMany as error:
            told.append(error.retry_after_seconds)
    return told


def test_wrong_tokens_are_told_to_wait_longer_and_longer() -> None:
    moment = Moment()
    wrong = WrongTokens(free=3, longest_seconds=60, clock=moment)
    assert pauses(wrong, "a", 10) == [0, 0, 0, 1, 2, 4, 8, 16, 32, 60]
    assert pauses(wrong, "b", 1) == [0], "another address has nothing to do with it"
    moment.at += 61
    assert pauses(wrong, "a", 1) == [0], "there was peace"


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    wrong = WrongTokens(clock=Moment())
    for number in range(20_000):
        wrong.note(f"2001:db8::{number:x}")
    assert len(wrong._known) == 10_000


def test_a_user_may_ask_so_often_and_then_waits_a_moment() -> None:
    moment = Moment()
    requests = Requests(10, clock=moment)
    for _ in range(20):
        requests.note("ada")
    with pytest.raises(TooMany) as refused:
        requests.note("ada")
    assert 0 < refused.value.retry_after_seconds <= 0.1
    requests.note("bob")
    moment.at += 0.1
    requests.note("ada")
    with pytest.raises(TooMany):
        requests.note("ada")


def test_no_limit_is_none() -> None:
    requests = Requests(0, clock=Moment())
    for _ in range(10_000):
        requests.note("ada")


def test_who_has_the_right_token_does_not_wait_for_others_wrong_ones(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    assert isinstance(app, Guard)
    app.wrong_tokens = WrongTokens(free=5)
    with TestClient(app, BASE) as client:
        wrong = [client.get("/stoker/v1/status", headers={"Authorization": "Bearer wrong"}) for _ in range(7)]
        assert [answer.status_code for answer in wrong] == [401] * 5 + [429] * 2
        assert wrong[-1].headers["Retry-After"] == "2"
        assert wrong[-1].json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        assert client.get("/stoker/v1/status").status_code == 401, "no token is no guess"
        right = {"Authorization": f"Bearer {stoker.tokens.token}"}
        assert client.get("/stoker/v1/status", headers=right).status_code == 200


def test_users_are_limited_and_admins_are_not(stoker: Stoker) -> None:
    app = make_app(stoker.services, stoker.tokens, allowed_hosts("127.0.0.1", 7077))
    assert isinstance(app, Guard)
    app.requests = Requests(2, clock=Moment())
    token, _ = stoker.services.tokens.create("ada")
    with TestClient(app, BASE) as client:
        for shown, last in ((token, 429), (stoker.tokens.token, 200)):
            asked = [client.get("/stoker/v1/status", headers={"Authorization": f"Bearer {shown}"}) for _ in range(5)]
            assert asked[-1].status_code == last


def test_requests_under_way_are_bounded_by_user_and_by_address() -> None:
    under_way = UnderWay(2)
    with under_way.one("ada", "h1"), under_way.one("ada", "h2"):
        with pytest.raises(TooMany, match="2 requests of the user ada"), under_way.one("ada", "h1"):
            pass
        with under_way.one("bob", "h1"):
            pass
    with under_way.one("ada", "h1"):
        pass
    assert not under_way._open, "nobody is remembered who has nothing open"
    with ExitStack() as opened:
        for n in range(8):
            opened.enter_context(under_way.one(f"user {n}", "h1"))
        with pytest.raises(TooMany, match="8 requests of the address h1"), under_way.one("ada", "h1"):
            pass
    with UnderWay(0).one("ada", "h1"), UnderWay(0).one("ada", "h1"):
        pass
