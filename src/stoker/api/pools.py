"""Threads for what blocks, in pools of their own: no kind of request takes the threads of another, and none waits for ever.

A disk that hangs, or a database, keeps whoever asks for it, and fills its pool at most. The server's state and its end are asked
for in a pool in which nothing waits for a disk.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeVar

import anyio
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.core.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


class Pool:
    """So many threads, made when they are needed, and how long anybody waits for one of them and what it does."""

    def __init__(self, name: str, threads: int, *, seconds: float = 120.0) -> None:
        self.name = name
        self.seconds = seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"stoker-{name}")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it in a thread of this pool. Raises Unavailable if that takes too long: then it goes on there, and is not heard.

        Who is cancelled waits for it all the same, as its files are still in use.
        """
        call = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
        future = asyncio.wrap_future(self._threads.submit(call))
        with anyio.CancelScope(shield=True):
            await asyncio.wait({future}, timeout=self.seconds)
        if not future.done():
            future.cancel()
            raise Unavailable(
                f"the server could not do this within {self.seconds:g} s: its {self.name} are busy, or do not answer",
                fix="ask again; if that goes on, look after the disks and the database of the server",
            )
        return future.result()


VITAL = Pool("vital parts", 4)
REPLICAS = Pool("ways to the replicas", 8)
FILES = Pool("disks", 16)
LOGS = Pool("logs", 8)
JOBS = Pool("books", 24)

TABLE: tuple[tuple[re.Pattern[str], Pool], ...] = (
    (re.compile(r"/stoker/v1/(status|shutdown)"), VITAL),
    (re.compile(r"/stoker/replica/v1/[^/]+/[^/]+/[^/]+/(files|folders)/.*", re.DOTALL), FILES),
    (re.compile(r"/stoker/replica/.*", re.DOTALL), REPLICAS),
    (
        re.compile(r"/stoker/v1/files/.*|(/resumable|/upload|/download|/batch)*/storage/v1.*|.*/artifacts", re.DOTALL),
        FILES,
    ),
    (re.compile(r"/v2/.*|.*/(logs|stream|story|steps|profile)", re.DOTALL), LOGS),
)
"""Path, and in which pool its requests block. The first that fits counts; what no row names is of JOBS."""

_pool: contextvars.ContextVar[Pool] = contextvars.ContextVar("pool", default=JOBS)


class Pools:
    """Middleware that chooses the pool of a request by its path."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the pool in the context."""
        if scope["type"] == "http":
            path = scope["path"]
            _pool.set(next((pool for pattern, pool in TABLE if pattern.fullmatch(path)), JOBS))
        await self.app(scope, receive, send)


class Route(APIRoute):
    """A route whose function, if it is none to be awaited, is called in the pool of the request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(path, endpoint if inspect.iscoroutinefunction(endpoint) else _awaited(endpoint), **kwargs)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call it in a thread of the request's pool. Raises Unavailable if that takes too long."""
    return await _pool.get().run(function, *args, **kwargs)


@asynccontextmanager
async def entered_in_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A context that is entered and left in threads of the request's pool."""
    value = await in_thread(manager.__enter__)
    try:
        yield value
    except BaseException as error:
        if not await in_thread(manager.__exit__, type(error), error, error.__traceback__):
            raise
    else:
        await in_thread(manager.__exit__, None, None, None)


def _awaited(function: Callable[..., T]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> T:
        return await in_thread(function, *args, **kwargs)

    run.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]  # its names are its module's
    return run
