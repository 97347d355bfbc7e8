"""The parts of AI Platform v1 that are in its contract and not served here: each answers 501, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter

from stoker.core.errors import Unimplemented

NOT_SERVED: Mapping[str, str] = {
    "models": "models and online prediction are not served by this Stoker yet",
    "operations": "long-running operations are not served by this Stoker yet",
    "locations/{location}/operations": "long-running operations are not served by this Stoker yet",
    "locations/{location}/studies": "studies (Vizier) are not served by this Stoker",
}
"""Collection, below a project → what is said of it and of everything in it."""

_METHODS = ["GET", "POST", "PATCH", "DELETE"]

router = APIRouter(prefix="/v1/projects/{project}")


def _refuse(message: str) -> Callable[[], Any]:
    def refuse() -> Any:
        raise Unimplemented(message)

    return refuse


for _collection, _message in NOT_SERVED.items():
    for _path in (f"/{_collection}", f"/{_collection}/{{rest:path}}"):
        router.add_api_route(_path, _refuse(_message), methods=_METHODS, name=_collection)
