"""What every method of objects takes: names in the path, conditions in the query."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Query, Request

from stoker.core.errors import BadSpec, NotFound, Violation
from stoker.store.objects.object import Conditions, Object

Number = Annotated[int | None, Query(ge=0)]


def _conditions(
    ifGenerationMatch: Number = None,
    ifGenerationNotMatch: Number = None,
    ifMetagenerationMatch: Number = None,
    ifMetagenerationNotMatch: Number = None,
) -> Conditions:
    return Conditions(
        generation_match=ifGenerationMatch,
        generation_not_match=ifGenerationNotMatch,
        metageneration_match=ifMetagenerationMatch,
        metageneration_not_match=ifMetagenerationNotMatch,
    )


def _source_conditions(
    sourceGeneration: Number = None,
    ifSourceGenerationMatch: Number = None,
    ifSourceGenerationNotMatch: Number = None,
    ifSourceMetagenerationMatch: Number = None,
    ifSourceMetagenerationNotMatch: Number = None,
) -> Conditions:
    return Conditions(
        generation_match=ifSourceGenerationMatch if ifSourceGenerationMatch is not None else sourceGeneration,
        generation_not_match=ifSourceGenerationNotMatch,
        metageneration_match=ifSourceMetagenerationMatch,
        metageneration_not_match=ifSourceMetagenerationNotMatch,
    )


Conditional = Annotated[Conditions, Depends(_conditions)]
SourceConditional = Annotated[Conditions, Depends(_source_conditions)]


def path_below_objects(request: Request) -> bytes:
    """What stands behind `/o/` in the path as it was sent: only there can `/` and `%2F` be told from each other."""
    path: bytes = request.scope["raw_path"]
    return path.partition(b"/o/")[2]


def object_name(raw: bytes) -> str:
    """A name out of a path. Raises BadSpec for what is not UTF-8."""
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadSpec([Violation("name", "it is not UTF-8")]) from None


def check_generation(found: Object, generation: int | None) -> None:
    """Raise NotFound for another generation than the one there is: earlier ones are not kept."""
    if generation not in (None, found.generation):
        raise NotFound(f"no generation {generation} of gs://{found.bucket}/{found.name}")
