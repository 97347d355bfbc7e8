"""Uploads: in one request with nothing but the content, in one with what is said of it before, or in as many as it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.field_mask import Mask, read_mask
from stoker.api.pools import Route, entered_in_thread, in_thread
from stoker.api.services import read_json, services
from stoker.core.errors import BadSpec, LengthRequired, Unimplemented, Violation
from stoker.store.objects.object import Asked, Conditions, Said
from stoker.store.objects.uploads import Upload

from .bodies import CLIENT_HAS_GONE, body, drain, heard_out, pour
from .multipart import read_related
from .parameters import Conditional
from .ranges import ContentRange, read_content_range
from .resources import answer, is_header, object_resource, read_hashes, read_said

INCOMPLETE = 308
_HASH_SECONDS = 20.0

router = APIRouter(route_class=Route)


@router.post("/upload/storage/v1/b/{bucket}/o")
@router.post("/resumable/upload/storage/v1/b/{bucket}/o")  # gcloud's
async def upload(
    bucket: str,
    request: Request,
    conditions: Conditional,
    uploadType: Literal["media", "multipart", "resumable"] = "media",
    name: str = "",
    upload_id: str = "",
    fields: str = "",
) -> Response:
    """objects.insert: an object, or the address at which its bytes are awaited."""
    if upload_id:
        return await go_on(request, upload_id, fields)  # gcsfs sends them by POST
    _check_plain(request)
    ways = {"media": _by_media, "multipart": _by_multipart, "resumable": _begin}
    return await heard_out(request, ways[uploadType](request, bucket, name, conditions, read_mask(fields)))


@router.put("/upload/storage/v1/b/{bucket}/o")
@router.put("/resumable/upload/storage/v1/b/{bucket}/o")
async def go_on(request: Request, upload_id: str, fields: str = "") -> Response:
    """Bytes of an upload that was begun, or the question how many have come. The last ones are answered with the object."""
    return await heard_out(request, _go_on(request, upload_id, read_mask(fields)))


@router.delete("/upload/storage/v1/b/{bucket}/o")
@router.delete("/resumable/upload/storage/v1/b/{bucket}/o")
def cancel(request: Request, upload_id: str) -> Response:
    """Give an upload up."""
    services(request).uploads.cancel(upload_id)
    return Response(status_code=CLIENT_HAS_GONE)


async def _by_media(request: Request, bucket: str, name: str, conditions: Conditions, mask: Mask) -> Response:
    """The body is the content."""
    _check_length(request)
    said = _read_said({}, request.headers.get("content-type", ""))
    hashes = read_hashes({}, request.headers, is_media=True)
    asked = Asked(name=_read_name(name, {}), said=said, hashes=hashes, conditions=conditions)
    return await _make(request, bucket, asked, body(request), mask)


async def _by_multipart(request: Request, bucket: str, name: str, conditions: Conditions, mask: Mask) -> Response:
    """The body is what is said of the object, then the content."""
    _check_length(request)
    related = await read_related(request.headers.get("content-type", ""), body(request))
    said = _read_said(related.metadata, related.content_type)
    hashes = read_hashes(related.metadata, request.headers)
    asked = Asked(name=_read_name(name, related.metadata), said=said, hashes=hashes, conditions=conditions)
    return await _make(request, bucket, asked, related.content, mask)


async def _make(request: Request, bucket: str, asked: Asked, content: AsyncIterator[bytes], mask: Mask) -> Response:
    target = services(request).objects.bucket(bucket)
    asked.conditions.check(await in_thread(target.find, asked.name))  # before all of it has come for nothing
    async with entered_in_thread(target.write(asked.name)) as part:
        await pour(content, part.write)
        made = await in_thread(target.commit, part, asked)
    return answer(object_resource(made, str(request.base_url)), mask)


async def _begin(request: Request, bucket: str, name: str, conditions: Conditions, _: Mask) -> Response:
    """The body is what is said of the object; the bytes come later, to the address that is answered."""
    metadata = await read_json(request)
    if not isinstance(metadata, dict):
        raise BadSpec([Violation("body", "an object is needed")])
    said = _read_said(metadata, request.headers.get("x-upload-content-type", ""))
    hashes = read_hashes(metadata, request.headers)
    size = _read_size(request.headers.get("x-upload-content-length"))
    asked = Asked(name=_read_name(name, metadata), said=said, hashes=hashes, conditions=conditions)
    begun = await in_thread(services(request).uploads.begin, bucket, asked, size)
    address = request.url.replace(query=f"uploadType=resumable&upload_id={begun.id}")
    return Response(status_code=200, headers={"Location": str(address), "X-GUploader-UploadID": begun.id})


async def _go_on(request: Request, id: str, mask: Mask) -> Response:
    uploads = services(request).uploads
    upload = await in_thread(uploads.get, id)
    if upload.is_done:  # its answer was lost
        await drain(request)
        target = services(request).objects.bucket(upload.bucket)
        made = await in_thread(target.stat, upload.asked.name, hash_seconds=_HASH_SECONDS)
        return answer(object_resource(made, str(request.base_url)), mask)
    header = request.headers.get("content-range")
    brought = read_content_range(header) if header else None
    total = await _take(request, upload, brought)
    received = await in_thread(uploads.received, id)
    if upload.size not in (None, total) or (total is not None and received > total):
        known = f"{upload.size} were announced, {received} have come"
        raise BadSpec([Violation("Content-Range", f"{total} bytes in all, and {known}")])
    if received != total:
        return Response(status_code=INCOMPLETE, headers={"Range": f"bytes=0-{received - 1}"} if received else {})
    made = await in_thread(uploads.finish, id, read_hashes({}, request.headers))
    return answer(object_resource(made, str(request.base_url)), mask)


async def _take(request: Request, upload: Upload, brought: ContentRange | None) -> int | None:
    """Keep the bytes that a request brings; without a Content-Range they are all there are. Returns how many there will be."""
    if brought is not None and brought.is_question:
        return brought.total if brought.total is not None else upload.size
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unimplemented("parts of an upload that are packed for the way", fix="send them as they are")
    append, at = services(request).uploads.append, brought.first if brought else 0

    def keep(block: bytes) -> None:
        nonlocal at
        if brought is not None and at + len(block) > brought.end:
            raise BadSpec([Violation("Content-Range", f"more bytes came than {brought.first}-{brought.end - 1}")])
        append(upload.id, at, block)
        at += len(block)

    await pour(request.stream(), keep)
    if brought is None:
        return at
    return brought.total if brought.total is not None else upload.size


def _read_name(name: str, metadata: dict[str, Any]) -> str:
    found = name or metadata.get("name")
    if not isinstance(found, str) or not found:
        raise BadSpec([Violation("name", "the object's name is needed, as a parameter or in the metadata")])
    return found


def _read_said(metadata: dict[str, Any], content_type: str) -> Said:
    """What the client says of the object. `content_type`: that of the bytes, where the metadata have none."""
    said = read_said(metadata)(Said())
    if not is_header(content_type):
        raise BadSpec([Violation("Content-Type", "a text of printable ASCII is needed")])
    return said if said.content_type else replace(said, content_type=content_type)


def _read_size(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise BadSpec([Violation("X-Upload-Content-Length", f"{text[:40]!r} is not a number of bytes")])
    return int(text)


def _check_length(request: Request) -> None:
    """A body without a length is empty, and so never what an upload means."""
    if "content-length" not in request.headers and "transfer-encoding" not in request.headers:
        raise LengthRequired


def _check_plain(request: Request) -> None:
    """Whoever asks for encryption must not believe that it took place."""
    if "x-goog-encryption-key" in request.headers or request.query_params.get("kmsKeyName"):
        raise Unimplemented("objects are not encrypted by keys of their own here", fix="leave the key out")
