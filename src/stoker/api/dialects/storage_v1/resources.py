"""Buckets and objects as JSON, and what clients say of objects, read from JSON and headers."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from stoker.api.field_mask import Mask, partial
from stoker.core.errors import BadSpec, Violation
from stoker.store.objects.hashes import Hashes
from stoker.store.objects.object import Object, Said

OCTETS = "application/octet-stream"
MOST_METADATA_BYTES = 8192
_SAID = {
    "contentType": "content_type",
    "contentEncoding": "content_encoding",
    "contentDisposition": "content_disposition",
    "contentLanguage": "content_language",
    "cacheControl": "cache_control",
    "customTime": "custom_time",
    "storageClass": "storage_class",
}
_HASHES = {"crc32c": 4, "md5Hash": 16}  # their bytes
_LAST_SECOND = 253402300799.0  # of the year 9999
_PRINTABLE = re.compile(r"[\x20-\x7e]*")  # they are sent as headers, too


def bucket_resource(name: str, changed_ns: int, region: str, base: str) -> dict[str, Any]:
    """A bucket. `changed_ns`: 0 if that is not known. `base`: the address of this server."""
    times = {"timeCreated": _time(changed_ns), "updated": _time(changed_ns)} if changed_ns else {}
    return {
        "kind": "storage#bucket",
        "id": name,
        "selfLink": f"{base}storage/v1/b/{name}",
        "name": name,
        "projectNumber": "0",
        "metageneration": "1",
        "etag": "1",
        "location": region.upper(),
        "locationType": "region",
        "storageClass": "STANDARD",
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
        **times,
    }


def answer(found: Any, mask: Mask) -> Response:
    """What was found, or the part of it that was asked for."""
    return JSONResponse(partial(found, mask))  # at once: FastAPI would look into every value of a long listing


def object_resource(found: Object, base: str) -> dict[str, Any]:
    """An object. `base`: the address of this server."""
    path = f"storage/v1/b/{found.bucket}/o/{quote(found.name, safe='')}"
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{found.bucket}/{found.name}/{found.generation}",
        "selfLink": f"{base}{path}",
        "mediaLink": f"{base}download/{path}?generation={found.generation}&alt=media",
        "name": found.name,
        "bucket": found.bucket,
        "generation": str(found.generation),
        "metageneration": str(found.metageneration),
        "contentType": content_type(found),
        "storageClass": "STANDARD",
        "size": str(found.size),
        "md5Hash": found.hashes.md5,
        "crc32c": found.hashes.crc32c,
        "etag": found.etag,
        "timeCreated": _time(found.stamp.mtime_ns),
        "updated": _time(found.updated_ns or found.stamp.mtime_ns),
        "metadata": dict(found.said.metadata),
    }
    resource |= {name: said for name, attribute in _SAID.items() if (said := getattr(found.said, attribute))}
    return {name: value for name, value in resource.items() if value not in ("", {})}


def content_type(found: Object) -> str:
    """What was said, else what the name suggests, for programs say nothing."""
    return found.said.content_type or mimetypes.guess_type(found.name)[0] or OCTETS


def seconds(ns: int) -> float:
    """A file's time in seconds since the epoch. What a program has set beyond the years that can be written is brought back."""
    return min(max(ns / 1e9, 0.0), _LAST_SECOND)


def read_said(body: Any) -> Callable[[Said], Said]:
    """What a body changes in what is said of an object; null takes away. Raises BadSpec."""
    violations: list[Violation] = []
    if not isinstance(body, dict):
        raise BadSpec([Violation("body", "an object is needed")])
    texts: dict[str, str] = {}
    for name, attribute in _SAID.items():
        if name in body:
            text = body[name] if body[name] is not None else ""
            if isinstance(text, str) and is_header(text):
                texts[attribute] = text
            else:
                violations.append(Violation(name, "a text of printable ASCII is needed"))
    metadata = body.get("metadata", {})
    if metadata is not None and not _is_table(metadata):
        violations.append(Violation("metadata", f"a table of texts is needed, of {MOST_METADATA_BYTES} bytes at most"))
    if violations:
        raise BadSpec(violations)

    def change(said: Said) -> Said:
        kept = {**said.metadata, **metadata} if metadata is not None else {}
        return replace(said, **texts, metadata={key: text for key, text in kept.items() if text is not None})

    return change


def read_hashes(body: Mapping[str, Any], headers: Headers, *, is_media: bool = False) -> Hashes:
    """The hashes that a client says the content has: in the resource or in `X-Goog-Hash`. Raises BadSpec.

    `is_media`: the body of the request is the content, and `Content-MD5` is of both.
    """
    said = {name: body[name] for name in _HASHES if body.get(name)}
    for part in ",".join(headers.getlist("x-goog-hash")).split(","):
        kind, _, text = part.strip().partition("=")
        if name := {"crc32c": "crc32c", "md5": "md5Hash"}.get(kind):
            said.setdefault(name, text)
    if is_media and (md5 := headers.get("content-md5")):
        said.setdefault("md5Hash", md5)
    violations = [
        Violation(name, f"base64 of {_HASHES[name]} bytes is needed")
        for name, text in said.items()
        if not _is_hash(name, text)
    ]
    if violations:
        raise BadSpec(violations)
    return Hashes(crc32c=said.get("crc32c", ""), md5=said.get("md5Hash", ""))


def is_said(body: Any) -> bool:
    """Whether a body says anything of an object."""
    return isinstance(body, dict) and bool(body.keys() & {*_SAID, "metadata"})


def is_header(text: str) -> bool:
    """Whether a text can be sent as a header, as most of what is said of an object is."""
    return _PRINTABLE.fullmatch(text) is not None and len(text) <= MOST_METADATA_BYTES


def _is_hash(name: str, text: Any) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _HASHES[name]
    except (binascii.Error, ValueError, TypeError):
        return False


def _is_table(value: Any) -> bool:
    if not isinstance(value, dict) or not all(isinstance(text, str | None) for text in value.values()):
        return False
    try:
        return sum(len(key.encode()) + len((text or "").encode()) for key, text in value.items()) <= MOST_METADATA_BYTES
    except UnicodeEncodeError:
        return False


def _time(ns: int) -> str:
    """RFC 3339, to the millisecond."""
    return datetime.fromtimestamp(seconds(ns), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
