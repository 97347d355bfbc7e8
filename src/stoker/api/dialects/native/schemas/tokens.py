"""Tokens of users, as they are asked for and told of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from .words import Time, says


class TokenRequest(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, says("The user whom it stands for: small letters, digits, '.', '_', '-'.", "ada")]
    days: Annotated[float | None, says("For how many days it is good; without it, until it is revoked.", 90)] = None
    admin: Annotated[bool, says("Whether it opens everything.", False)] = False
    metrics: Annotated[bool, says("Whether it opens /metrics, and nothing else.", False)] = False
    projects: Annotated[
        list[str], Field(max_length=100), says("Its projects; without any, all of them.", ["vision"])
    ] = []
    buckets: Annotated[
        list[str], Field(max_length=100), says("The buckets that it opens, where it has projects.", ["vision-data"])
    ] = []


class TokenRow(TypedDict):
    """A token, without its text."""

    name: Annotated[str, says("The user whom it stands for.", "ada")]
    admin: Annotated[bool, says("Whether it opens everything.", False)]
    metrics: Annotated[bool, says("Whether it opens /metrics, and nothing else.", False)]
    projects: Annotated[list[str], says("Its projects; none: all of them.", ["vision"])]
    buckets: Annotated[list[str], says("The buckets that it opens, where it has projects.", ["vision-data"])]
    created_at: Annotated[float, says(f"When it was made. {Time}", 1795190400.0)]
    expires_at: Annotated[float | None, says(f"When it stops being good; null: never. {Time}", 1802966400.0)]
    last_used_at: Annotated[float | None, says(f"When it was last shown; null: never. {Time}", 1795190460.25)]


class MadeToken(TokenRow):
    """A token that was made just now."""

    token: Annotated[str, says("Its text, told this once.", "stk_…")]


class Tokens(TypedDict):
    """All tokens, by name."""

    tokens: list[TokenRow]
