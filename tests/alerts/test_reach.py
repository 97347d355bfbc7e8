"""Whom a rule tells what."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.alerts.reach import Reach, is_told, reach_by
from stoker.core.alerts import Alert, Rule
from stoker.store.tokens import Token

from .builders import a_rule, an_alert

EVERYONE = a_rule(everyone=True)
OF_SITE = Alert(event="disk-low", subject="/home", at=1.0, title="low")
ALL, ADMIN = Reach(user="ada"), Reach(user="ada", is_admin=True)
OF_P, OF_Q = Reach(user="ada", projects=frozenset({"p"})), Reach(user="ada", projects=frozenset({"q"}))


def a_token(name: str = "ada", **more: Any) -> Token:
    return Token(name=name, sha256="", created_at=1.0, **more)


@pytest.mark.parametrize(
    ("tokens", "reach"),
    [
        ([], None),
        ([a_token("bob")], None),
        ([a_token("bob"), a_token()], ALL),
        ([a_token(projects=("p",))], OF_P),
        ([a_token(is_admin=True)], ADMIN),
        ([a_token(expires_at=100.5)], ALL),
        ([a_token(expires_at=100.0)], None),
        ([a_token(is_for_metrics=True)], None),
    ],
)
def test_a_user_sees_what_his_token_opens_now(tokens: list[Token], reach: Reach | None) -> None:
    assert reach_by(tokens, ("root",), "ada", 100.0) == reach
    assert reach_by(tokens, ("root", "ada"), "ada", 100.0) == ADMIN


@pytest.mark.parametrize(
    ("rule", "alert", "reach", "is_it"),
    [
        (a_rule(), an_alert(), ALL, True),
        (a_rule(), an_alert(), OF_P, True),
        (a_rule(), an_alert(), OF_Q, False),
        (a_rule(), an_alert(), None, False),
        (a_rule(), an_alert(owner="bob"), ALL, False),
        (a_rule(), an_alert(owner="bob"), ADMIN, False),
        (EVERYONE, an_alert(owner="bob"), ALL, True),
        (EVERYONE, an_alert(owner="bob"), OF_P, True),
        (EVERYONE, an_alert(owner="bob"), OF_Q, False),
        (a_rule(), an_alert("job-ended"), ALL, False),
        (a_rule(project="p"), an_alert(), ALL, True),
        (a_rule(project="q"), an_alert(), ALL, False),
        (a_rule(jobs="train_*"), an_alert(job="p/train_7"), ALL, True),
        (a_rule(jobs="train_*"), an_alert(job="p/Train_7"), ALL, False),
        (a_rule(jobs="p*"), an_alert(job="p/j"), ALL, False),
        (a_rule("r", "ada", "disk-low"), OF_SITE, ADMIN, True),
        (a_rule("r", "ada", "disk-low", everyone=True), OF_SITE, ALL, False),
        (a_rule(), OF_SITE, ADMIN, False),
    ],
)
def test_as_far_as_its_owner_sees(rule: Rule, alert: Alert, reach: Reach | None, is_it: bool) -> None:
    assert is_told(rule, alert, reach) == is_it
