"""Buckets. Those that are kept here are there as soon as they are named; making one makes its folder."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stoker.api.field_mask import read_mask
from stoker.api.pools import Route, in_thread
from stoker.api.services import read_json, services
from stoker.core.errors import BadSpec, Unimplemented, Violation
from stoker.store.objects.bucket import Bucket

from .resources import answer, bucket_resource

router = APIRouter(route_class=Route, prefix="/storage/v1/b")


@router.get("")
def list_buckets(request: Request, prefix: str = "", fields: str = "") -> Response:
    """buckets.list: those that are folders here."""
    mask, objects = read_mask(fields), services(request).objects
    found = [_resource(request, objects.bucket(name)) for name in objects.buckets() if name.startswith(prefix)]
    return answer({"kind": "storage#buckets", "items": found}, mask)


@router.post("")
async def make_bucket(request: Request, fields: str = "") -> Response:
    """buckets.insert."""
    mask, body = read_mask(fields), await read_json(request)
    name = body.get("name") if isinstance(body, dict) else None
    if not isinstance(name, str):
        raise BadSpec([Violation("name", "the bucket's name is needed")])
    made = await in_thread(services(request).objects.make_bucket, name)
    return answer(await in_thread(_resource, request, made), mask)


@router.get("/{bucket}")
def get_bucket(bucket: str, request: Request, fields: str = "") -> Response:
    """buckets.get."""
    return answer(_resource(request, services(request).objects.bucket(bucket)), read_mask(fields))


@router.delete("/{bucket}")
def delete_bucket(bucket: str, request: Request) -> Response:
    """buckets.delete, of an empty one."""
    services(request).objects.remove_bucket(bucket)
    return Response(status_code=204)


@router.patch("/{bucket}")
@router.put("/{bucket}")
def change_bucket(bucket: str) -> Any:
    """buckets.patch and buckets.update: there is nothing to change."""
    raise Unimplemented("buckets of this Stoker have no properties that can be changed")


@router.get("/{bucket}/storageLayout")
def storage_layout(bucket: str, request: Request) -> Any:
    """buckets.getStorageLayout: gcloud asks whether folders are objects of their own. They are not."""
    found = _resource(request, services(request).objects.bucket(bucket))
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket,
        "location": found["location"],
        "locationType": found["locationType"],
        "hierarchicalNamespace": {"enabled": False},
    }


@router.get("/{bucket}/managedFolders")
@router.get("/{bucket}/folders")
def list_folders(bucket: str, request: Request) -> Any:
    """managedFolders.list and folders.list: there are none."""
    services(request).objects.bucket(bucket)
    return {}


def _resource(request: Request, bucket: Bucket) -> dict[str, Any]:
    region: str = services(request).config["region"]
    return bucket_resource(bucket.name, bucket.changed_ns(), region, str(request.base_url))
