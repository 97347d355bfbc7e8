"""No kind of request takes the threads of another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from stoker.api import pools
from stoker.api.pools import FILES, JOBS, LOGS, REPLICAS, TABLE, VITAL, Pool
from stoker.app import Stoker
from stoker.core.errors import Unavailable

PATHS = {
    "/stoker/v1/status": VITAL,
    "/stoker/v1/shutdown": VITAL,
    "/stoker/replica/v1/p/j.1/worker-0/beat": REPLICAS,
    "/stoker/replica/v1/p/j.1/worker-0/lines": REPLICAS,
    "/stoker/replica/v1/p/j.1/worker-0/files/0": FILES,
    "/stoker/v1/files/gs/b/a/logs": FILES,
    "/storage/v1/b/b/o/x": FILES,
    "/upload/storage/v1/b/b/o": FILES,
    "/resumable/upload/storage/v1/b/b/o": FILES,
    "/batch/storage/v1": FILES,
    "/stoker/v1/projects/p/jobs/j/artifacts": FILES,
    "/stoker/v1/projects/p/jobs/j/logs": LOGS,
    "/v2/entries:list": LOGS,
    "/stoker/v1/projects/p/jobs:run": JOBS,
    "/v1/projects/p/jobs": JOBS,
}


@pytest.mark.parametrize("path", PATHS)
def test_each_kind_of_request_has_its_pool(path: str) -> None:
    assert next((pool for pattern, pool in TABLE if pattern.fullmatch(path)), JOBS) is PATHS[path]


@contextmanager
def busy(pool: Pool) -> Iterator[None]:
    """Every thread of a pool waits for a disk that says nothing."""
    disk = threading.Event()
    waiting = [pool._threads.submit(disk.wait) for _ in range(64)]
    try:
        yield
    finally:
        disk.set()
        for future in waiting:
            future.result(timeout=30)


def test_files_that_hang_keep_nobody_else_waiting(http: TestClient, stoker: Stoker) -> None:
    with busy(FILES), busy(LOGS), busy(JOBS):
        assert http.get("/stoker/v1/status").status_code == 200


def test_who_waits_too_long_is_told_so() -> None:
    pool = Pool("disks", 1, seconds=0.05)
    with busy(pool), pytest.raises(Unavailable, match=r"within 0.05 s: its disks are busy"):
        asyncio.run(pool.run(int))


def test_what_it_raises_and_returns_comes_back() -> None:
    pool = Pool("disks", 1)
    assert asyncio.run(pool.run(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(pool.run(divmod, 7, 0))


def test_a_context_is_left_where_it_was_entered() -> None:
    told: list[Any] = []

    @contextmanager
    def manager() -> Iterator[int]:
        told.append("in")
        try:
            yield 7
        except ValueError as error:
            told.append(error)
            raise
        finally:
            told.append("out")

    async def use(error: Exception | None) -> None:
        async with pools.entered_in_thread(manager()) as value:
            told.append(value)
            if error is not None:
                raise error

    asyncio.run(use(None))
    error = ValueError()
    with pytest.raises(ValueError):
        asyncio.run(use(error))
    assert told == ["in", 7, "out", "in", 7, error, "out"]
