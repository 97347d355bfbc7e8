"""Tokens of users: made, listed, revoked. By admins alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from stoker.api.errors import about
from stoker.api.pools import in_thread
from stoker.api.services import read_json, services
from stoker.store.tokens import Token

from .answers import a_router, answer, declares
from .asked import read_as, takes
from .schemas.tokens import MadeToken, TokenRequest, TokenRow, Tokens

router = a_router("tokens")
_ASKED = {"name": "ada", "days": 90, "projects": ["vision"], "buckets": ["vision-data"]}

UserName = Annotated[str, Path(description="The user's name.", examples=["ada"])]


@router.post(
    "/tokens",
    responses=declares(MadeToken, 400, 409, 413, 415, 503),
    openapi_extra=takes(TokenRequest.model_json_schema(), _ASKED, "Whose it is, and what it opens."),
)
async def create_token(request: Request) -> Response:
    """Make a token for a user. Its text is told here and never again: the server keeps its hash.

    Jobs that are submitted with it are that user's. Without projects it opens the jobs of all of them, and every bucket; what
    concerns the server itself is for admins.
    """
    book, asked = services(request).tokens, read_as(TokenRequest, await read_json(request))
    with about("name", fix="revoke it first"):
        text, made = await in_thread(
            book.create,
            asked.name,
            days=asked.days,
            is_admin=asked.admin,
            is_for_metrics=asked.metrics,
            projects=tuple(dict.fromkeys(asked.projects)),
            buckets=tuple(dict.fromkeys(asked.buckets)),
        )
    found: MadeToken = {"token": text, **_row(made)}
    return answer(found)


@router.get("/tokens", responses=declares(Tokens))
def list_tokens(request: Request) -> Response:
    """The tokens there are, by name; those that have expired, too. None of them with its text."""
    found: Tokens = {"tokens": [_row(token) for token in services(request).tokens.tokens()]}
    return answer(found)


@router.delete("/tokens/{name}", responses=declares(Tokens, 404, 503))
def revoke_token(name: UserName, request: Request) -> Response:
    """Make a user's token worth nothing, at once. Jobs that were submitted with it go on. Answers those that are left."""
    services(request).tokens.revoke(name)
    return list_tokens(request)


def _row(token: Token) -> TokenRow:
    return {
        "name": token.name,
        "admin": token.is_admin,
        "metrics": token.is_for_metrics,
        "projects": list(token.projects),
        "buckets": list(token.buckets),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }
