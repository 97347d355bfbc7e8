"""Collections that are in a foreign API and not in this Stoker: everything in them answers 501, with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter

from stoker.api.pools import Route
from stoker.core.errors import Unimplemented

_METHODS = ["GET", "POST", "PATCH", "DELETE"]


def not_served(prefix: str, collections: Mapping[str, str]) -> APIRouter:
    """Routes for `collections`: below `prefix` → what is said of it and of everything in it."""
    router = APIRouter(route_class=Route, prefix=prefix)
    for collection, message in collections.items():
        for path in (f"/{collection}", f"/{collection}/{{rest:path}}"):
            router.add_api_route(path, _refusing(message), methods=_METHODS, name=collection)
    return router


def _refusing(message: str) -> Callable[[], Any]:
    def refuse() -> Any:
        raise Unimplemented(message)

    return refuse
