"""The HTTP application: the dialects behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from stoker import __version__
from stoker.core.errors import StokerError
from stoker.registry import load, names

from . import openapi
from .audit import Audit
from .auth import Guard, Tokens
from .errors import on_bad_parameter, on_disconnect, on_http_error, on_os_error, on_stoker_error, on_unexpected_error
from .pools import Pools
from .rate_limits import Requests, UnderWay
from .services import Services
from .standing_by import StandingBy
from .timing import Timed


def make_app(services: Services, tokens: Tokens, hosts: frozenset[str], *, needs_token: bool = True) -> ASGIApp:
    """The application, to be served."""
    config = services.config
    served = Pools(StandingBy(routes(services), services.leads, services.refusal))
    return Guard(
        Timed(served, services.answer_seconds),
        tokens,
        hosts,
        Audit(config.home / "audit.log"),
        needs_token,
        Requests(config["requests_per_second"]),
        UnderWay(config["requests_at_once"]),
    )


def routes(services: Services) -> FastAPI:
    """Every route, without the guard."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.notifier.attach()
        yield

    app = FastAPI(
        title="Stoker",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=openapi.PATH,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.services = services
    for name in names("dialects"):
        app.include_router(load("dialects", name), include_in_schema=name == "native")
    app.openapi = lambda: openapi.describe_api(app)  # type: ignore[method-assign]
    app.add_exception_handler(StokerError, on_stoker_error)
    app.add_exception_handler(RequestValidationError, on_bad_parameter)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(ClientDisconnect, on_disconnect)
    app.add_exception_handler(OSError, on_os_error)
    app.add_exception_handler(Exception, on_unexpected_error)
    return app
