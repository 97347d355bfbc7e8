"""Objects: which there are, what is said of them, their bytes, their end."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from stoker.api.field_mask import Mask, read_mask
from stoker.api.pools import Route, in_thread
from stoker.api.services import read_json, services
from stoker.core.errors import BadSpec, Unimplemented, Violation
from stoker.store.objects.listing import LARGEST_PAGE, Wanted
from stoker.store.objects.object import Said

from .media import media, not_modified
from .parameters import Conditional, Number, check_generation, object_name, path_below_objects
from .resources import answer, object_resource, read_said

HASH_SECONDS = 20.0
"""How long a client may wait for the hashes of a file that a program wrote. What was read by then is kept for the next."""
LIST_HASH_SECONDS = 5.0
_PAGE = 1000

router = APIRouter(route_class=Route)


@router.get("/storage/v1/b/{bucket}/o")
def list_objects(
    bucket: str,
    request: Request,
    prefix: str = "",
    delimiter: str = "",
    startOffset: str = "",
    endOffset: str = "",
    pageToken: str = "",
    maxResults: Annotated[int, Query(ge=0)] = 0,
    includeTrailingDelimiter: bool = False,
    matchGlob: str = "",
    softDeleted: bool = False,
    fields: str = "",
) -> Response:
    """objects.list, in the order of names. There are no earlier versions and no deleted ones that could be listed."""
    mask = read_mask(fields)
    if matchGlob:
        raise Unimplemented("listing by matchGlob is not served; list by prefix and match at home")
    wanted = Wanted(
        prefix=prefix,
        delimiter=delimiter,
        start=startOffset,
        end=endOffset,
        after=_read_token(pageToken),
        limit=min(maxResults or _PAGE, LARGEST_PAGE),
        with_folders=includeTrailingDelimiter,
    )
    if softDeleted:
        return answer({"kind": "storage#objects"}, mask)
    hash_seconds = LIST_HASH_SECONDS if _asks_for_hashes(mask) else 0.0
    found = services(request).objects.bucket(bucket).list(wanted, hash_seconds=hash_seconds)
    base = str(request.base_url)
    listed = {
        "kind": "storage#objects",
        "items": [object_resource(one, base) for one in found.objects],
        "prefixes": list(found.prefixes),
        "nextPageToken": _token(found.next),
    }
    return answer({name: value for name, value in listed.items() if value}, mask)


@router.get("/storage/v1/b/{bucket}/o/{name:path}")
def get_object(
    bucket: str,
    request: Request,
    conditions: Conditional,
    generation: Number = None,
    alt: str = "json",
    fields: str = "",
) -> Response:
    """objects.get: what is known of an object, or with `alt=media` its bytes."""
    if alt == "media":
        return get_media(bucket, request, conditions, generation)
    mask, name = read_mask(fields), object_name(path_below_objects(request))
    hash_seconds = HASH_SECONDS if _asks_for_hashes({"items": mask} if mask else {}) else 0.0
    found = services(request).objects.bucket(bucket).stat(name, hash_seconds=hash_seconds)
    check_generation(found, generation)
    if conditions.is_known(found):
        return not_modified(found)
    conditions.check(found)
    return answer(object_resource(found, str(request.base_url)), mask)


@router.get("/download/storage/v1/b/{bucket}/o/{name:path}")
def get_media(bucket: str, request: Request, conditions: Conditional, generation: Number = None) -> Response:
    """objects.get with the bytes for an answer."""
    name = object_name(path_below_objects(request))
    return media(services(request).objects.bucket(bucket), name, request.headers, conditions, generation)


@router.patch("/storage/v1/b/{bucket}/o/{name:path}")
@router.put("/storage/v1/b/{bucket}/o/{name:path}")
async def change_object(
    bucket: str, request: Request, conditions: Conditional, generation: Number = None, fields: str = ""
) -> Response:
    """objects.patch, and objects.update, which takes away what it does not name."""
    mask, name = read_mask(fields), object_name(path_below_objects(request))
    change = read_said(await read_json(request))
    is_update = request.method == "PUT"

    def say() -> Any:
        target = services(request).objects.bucket(bucket)
        check_generation(target.stat(name), generation)
        changed = target.say(name, lambda said: change(Said() if is_update else said), conditions)
        return object_resource(changed, str(request.base_url))

    return answer(await in_thread(say), mask)


@router.delete("/storage/v1/b/{bucket}/o/{name:path}")
def delete_object(bucket: str, request: Request, conditions: Conditional, generation: Number = None) -> Response:
    """objects.delete."""
    name, target = object_name(path_below_objects(request)), services(request).objects.bucket(bucket)
    if generation is not None:
        check_generation(target.stat(name), generation)
    target.delete(name, conditions)
    return Response(status_code=204)


def _asks_for_hashes(mask: Mask) -> bool:
    """Whether the hashes are among the fields that are asked for: only then are they worth reading files."""
    items = mask.get("items", mask.get("*")) if mask else {}
    return items is not None and (not items or bool({"md5Hash", "crc32c", "*"} & items.keys()))


def _token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def _read_token(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadSpec([Violation("pageToken", "not a token that this server gave")]) from None
