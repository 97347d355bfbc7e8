"""Objects made of objects: copied, composed, moved. The bytes stay on this side."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.field_mask import read_mask
from stoker.api.pools import Route, in_thread
from stoker.api.services import read_json, services
from stoker.core.errors import BadSpec, NotFound, Violation
from stoker.store.objects.object import Asked, Conditions, Object, Said
from stoker.store.objects.objects import Source

from .parameters import Conditional, SourceConditional, object_name, path_below_objects
from .resources import answer, is_said, object_resource, read_said

MOST_SOURCES = 32
_COPY = re.compile(rb"(.+)/(copyTo|rewriteTo)/b/([^/]+)/o/(.+)")
_MOVE = re.compile(rb"(.+)/moveTo/o/(.+)")
_COMPOSE = re.compile(rb"(.+)/compose")

router = APIRouter(route_class=Route)


@router.post("/storage/v1/b/{bucket}/o/{rest:path}")
async def make_object(
    bucket: str, request: Request, conditions: Conditional, source: SourceConditional, fields: str = ""
) -> Response:
    """objects.copy, rewrite, move and compose."""
    mask, path = read_mask(fields), path_below_objects(request)
    body = await read_json(request)
    if match := _COPY.fullmatch(path):
        from_name, to_bucket, to_name = object_name(match[1]), object_name(match[3]), object_name(match[4])
        copied = await in_thread(
            _copy,
            request,
            Source(bucket=bucket, name=from_name, conditions=source),
            to_bucket,
            to_name,
            body,
            conditions,
        )
        resource = object_resource(copied, str(request.base_url))
        return answer(_rewritten(resource) if match[2] == b"rewriteTo" else resource, mask)
    if match := _MOVE.fullmatch(path):
        objects = services(request).objects.bucket(bucket)
        moved = await in_thread(
            objects.move, object_name(match[1]), object_name(match[2]), source=source, target=conditions
        )
        return answer(object_resource(moved, str(request.base_url)), mask)
    if match := _COMPOSE.fullmatch(path):
        composed = await in_thread(_compose, request, bucket, object_name(match[1]), body, conditions)
        return answer(object_resource(composed, str(request.base_url)), mask)
    raise NotFound(f"no such method of objects: {path[-80:].decode(errors='replace')}")


def _copy(request: Request, source: Source, bucket: str, name: str, body: Any, conditions: Conditions) -> Object:
    """With what was said of the source, unless the body says something else."""
    objects = services(request).objects
    said = read_said(body)(Said()) if is_said(body) else objects.bucket(source.bucket).stat(source.name).said
    return objects.copy([source], bucket, Asked(name=name, said=said, conditions=conditions))


def _rewritten(resource: dict[str, Any]) -> dict[str, Any]:
    """A rewrite is always done at once."""
    size = resource["size"]
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": resource,
    }


def _compose(request: Request, bucket: str, name: str, body: Any, conditions: Conditions) -> Object:
    sources = body.get("sourceObjects") if isinstance(body, dict) else None
    if not isinstance(sources, list) or not 0 < len(sources) <= MOST_SOURCES:
        raise BadSpec([Violation("sourceObjects", f"1 to {MOST_SOURCES} objects are needed")])
    said = read_said(body.get("destination") or {})(Said())
    asked = Asked(name=name, said=said, conditions=conditions)
    return services(request).objects.copy([_source(bucket, source) for source in sources], bucket, asked)


def _source(bucket: str, source: Any) -> Source:
    try:
        generation = source.get("generation") or (source.get("objectPreconditions") or {}).get("ifGenerationMatch")
        return Source(
            bucket=bucket,
            name=str(source["name"]),
            conditions=Conditions(generation_match=None if generation is None else int(generation)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadSpec([Violation("sourceObjects", "each has a name and may have a generation")]) from None
