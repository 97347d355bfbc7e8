"""Cloud Storage's JSON API over HTTP. Clients are pointed here by STORAGE_EMULATOR_HOST or gcloud's endpoint overrides.

Its own description is Google's discovery document, so it is left out of ours.
"""

from __future__ import annotations

from fastapi import APIRouter

from . import batch, buckets, copies, objects, uploads

router = APIRouter(include_in_schema=False)
for _part in (buckets, objects, copies, uploads, batch):
    router.include_router(_part.router)
