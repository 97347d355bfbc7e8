"""What is asked for: how a route says what it takes, and how that is read."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stoker.core.errors import BadSpec, Violation

from .answers import JSON

Asked = TypeVar("Asked", bound=BaseModel)


def takes(schema: dict[str, Any], example: dict[str, Any], description: str) -> dict[str, Any]:
    """What a route takes as its body."""
    content = {JSON: {"schema": schema, "example": example}}
    return {"requestBody": {"description": description, "required": True, "content": content}}


def read_as(kind: type[Asked], body: Any) -> Asked:
    """A body as what is asked for. Raises BadSpec with everything that is wrong with it."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise BadSpec([Violation(".".join(map(str, e["loc"])) or "body", e["msg"]) for e in error.errors()]) from None
