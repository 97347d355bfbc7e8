"""Files of buckets: in, out, and whether they are there. In constant memory, whatever their size."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from stoker.api.download import file_response
from stoker.api.pools import entered_in_thread, in_thread
from stoker.api.services import services
from stoker.core.errors import BadSpec, NotFound, TooLarge, Violation

from .answers import a_router, answer, declares, refused
from .schemas.files import Uploaded

LARGEST_FILE_BYTES = 64 << 30
_BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}, "example": "the file's bytes"}
_CONTENT: dict[str, Any] = {"application/octet-stream": _BYTES}

Scheme = Annotated[str, Path(description="gs or s3.", examples=["gs"])]
Bucket = Annotated[str, Path(description="The bucket.", examples=["my-bucket"])]
FileName = Annotated[str, Path(description="The file's name below its bucket; may hold `/`.", examples=["a/b.txt"])]

router = a_router("files")
_PATH = "/files/{scheme}/{bucket}/{name:path}"


@router.put(
    _PATH,
    responses=declares(Uploaded, 400, 404, 413, 503),
    openapi_extra={"requestBody": {"description": "The file.", "required": True, "content": _CONTENT}},
)
async def upload_file(scheme: Scheme, bucket: Bucket, name: FileName, request: Request) -> Response:
    """Write a file of a bucket, 64 GiB at most.

    It appears whole or not at all, also when the client goes away in the middle; what was there is replaced.
    """
    site, uri, size = services(request), _file_uri(scheme, bucket, name), 0
    async with entered_in_thread(site.files.write(uri)) as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST_FILE_BYTES:
                raise TooLarge(f"a file may have {LARGEST_FILE_BYTES >> 30} GiB")
            await in_thread(file.write, chunk)
    found: Uploaded = {"uri": uri, "size": size}
    return answer(found)


@router.get(
    _PATH,
    responses={200: {"description": "The file.", "content": _CONTENT}, **refused(400, 404, 503)},
)
def download_file(scheme: Scheme, bucket: Bucket, name: FileName, request: Request) -> Response:
    """Read a file of a bucket."""
    return file_response(services(request).files, _file_uri(scheme, bucket, name))


@router.head(_PATH, response_class=Response, responses={200: {"description": "It is there."}, **refused(400, 404, 503)})
def has_file(scheme: Scheme, bucket: Bucket, name: FileName, request: Request) -> Response:
    """Whether a file is there. As every answer to HEAD, it has no body."""
    uri = _file_uri(scheme, bucket, name)
    if not services(request).files.exists(uri):
        raise NotFound(f"no file {uri}")
    return Response(status_code=200)


def _file_uri(scheme: str, bucket: str, name: str) -> str:
    """The URI of a file. A bucket itself, or a folder, is none: written, it would stand in the way of everything below it."""
    if not name or name.endswith("/"):
        raise BadSpec([Violation("name", f"{name[-80:]!r} is not the name of a file below its bucket")])
    return f"{scheme}://{bucket}/{name}"
