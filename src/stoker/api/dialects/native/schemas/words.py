"""How a field or a parameter is described: what it is, and one example."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import Field

MOST_POSITION = 1 << 62


def says(text: str, example: object) -> Any:
    """What a field of an answer or a request is, with its unit, and an example of it."""
    return Field(description=text, examples=[example])


def asks(text: str, example: object, **rules: Any) -> Any:
    """What a parameter of the URL's query is, and an example of it."""
    return Query(description=text, examples=[example], **rules)


Project = Annotated[str, Path(description="The project: an id or a number.", examples=["local"])]
Name = Annotated[str, Path(description="The job's name.", examples=["train_3f2a"])]
Time = "Seconds since 1970, UTC."
