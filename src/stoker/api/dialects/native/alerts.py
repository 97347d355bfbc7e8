"""Alerts: rules of one's own. An admin sees those of others, too, and may try and remove them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from stoker.alerts.desk import Asked, RuleState
from stoker.alerts.reach import Reach
from stoker.api.access import Access
from stoker.api.errors import about
from stoker.api.pools import in_thread
from stoker.api.services import access_of, read_json, services
from stoker.core.alerts import DeliveryState
from stoker.core.errors import Forbidden

from .answers import a_router, answer, declares
from .asked import read_as, takes
from .schemas.alerts import AlertRequest, AlertRule, AlertRules, AlertTest, MadeAlertRule
from .schemas.words import asks

router = a_router("alerts")
_ASKED = {"name": "on-call", "channel": "webhook", "target": "https://hooks.example/on-call", "events": ["job-failed"]}

RuleName = Annotated[str, Path(description="The rule's name.", examples=["on-call"])]
Owner = Annotated[str, asks("Whose rule; empty: one's own. Those of others are for admins.", "ada", max_length=200)]


@router.get("/alerts", responses=declares(AlertRules))
def list_alerts(
    request: Request,
    everyone: Annotated[bool, asks("Of all users; for admins.", True)] = False,
) -> Response:
    """The rules of who asks, and what became of what they told in the last week."""
    access = access_of(request)
    if everyone and not access.is_admin:
        raise Forbidden("rules of others are shown to admins alone", fix="leave `everyone` out")
    found: AlertRules = {
        "rules": [_row(state) for state in services(request).alerts.rules(None if everyone else access.user)]
    }
    return answer(found)


@router.post(
    "/alerts",
    responses=declares(MadeAlertRule, 400, 409, 413, 415, 503),
    openapi_extra=takes(AlertRequest.model_json_schema(), _ASKED, "Who is to be told what, and how."),
)
async def add_alert(request: Request) -> Response:
    """Add a rule. It tells of what happens from now on.

    A webhook's secret is told here and never again. Without `everyone` only jobs of who asks are told of; events that concern
    the whole site are for admins.
    """
    desk, asked = services(request).alerts, read_as(AlertRequest, await read_json(request))
    reach = _reach(access_of(request))
    with about("name"):
        rule = await in_thread(desk.add, reach, Asked(**asked.model_dump()))
    (state,) = [state for state in await in_thread(desk.rules, rule.owner) if state.rule.name == rule.name]
    found: MadeAlertRule = {"secret": rule.secret, **_row(state)}
    return answer(found)


@router.post("/alerts/{name}:test", responses=declares(AlertTest, 400, 404, 503))
def test_alert(name: RuleName, request: Request, owner: Owner = "") -> Response:
    """Send a message by a rule now, and tell what came back. It may take ten seconds; five a minute are sent."""
    access = access_of(request)
    is_delivered, said = services(request).alerts.test(access.user, _owner(access, owner), name)
    found: AlertTest = {"delivered": is_delivered, "answer": said}
    return answer(found)


@router.delete("/alerts/{name}", responses=declares(AlertRules, 400, 404, 503))
def remove_alert(name: RuleName, request: Request, owner: Owner = "") -> Response:
    """Remove a rule, and what is on its way by it. Answers those that are left of the same owner."""
    access, desk = access_of(request), services(request).alerts
    whose = _owner(access, owner)
    desk.remove(whose, name)
    found: AlertRules = {"rules": [_row(state) for state in desk.rules(whose)]}
    return answer(found)


def _reach(access: Access) -> Reach:
    return Reach(user=access.user, is_admin=access.is_admin, projects=access.projects)


def _owner(access: Access, asked: str) -> str:
    """Whose rule is meant. Raises Forbidden."""
    if asked not in ("", access.user) and not access.is_admin:
        raise Forbidden("rules of others are for admins", fix="leave `owner` out")
    return asked or access.user


def _row(state: RuleState) -> AlertRule:
    rule, last = state.rule, state.last
    waits = last is not None and last.state is DeliveryState.PENDING
    return {
        "name": rule.name,
        "owner": rule.owner,
        "channel": rule.channel,
        "target": state.shown_target,
        "events": list(rule.events),
        "project": rule.project,
        "jobs": rule.jobs,
        "everyone": rule.everyone,
        "created_at": rule.created_at,
        "waiting": state.counts[DeliveryState.PENDING],
        "delivered": state.counts[DeliveryState.DELIVERED],
        "given_up": state.counts[DeliveryState.GIVEN_UP],
        "left_out": state.left_out,
        "last_tried_at": None if last is None else last.tried_at,
        "last_answer": "" if last is None else last.answer,
        "next_try_at": last.next_at if last is not None and waits else None,
    }
