"""The way to a server: requests, refusals as errors, pages, and streams that go on after they were cut off."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx

from stoker.core import errors as e

from .arguments import argument, as_json
from .paths import authorization, check_url
from .refusals import NoStoker, raise_refusal

RECONNECT_SECONDS = 30.0  # so long a stream that was cut off is asked for again: a restarted server is back by then

_SILENCE_SECONDS = 60.0  # four times the server's sign of life; see api/stream.py
_LONGEST_PAUSE_SECONDS = 2.0


class Transport:
    """Asks one server."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = 60.0,
        find: Callable[[], tuple[str, str]] | None = None,
    ) -> None:
        """`transport`, `pause`, `clock`: another way to the server, and to wait, for tests. `seconds`: to wait for an answer.

        `find`: the address and token of the server that leads now, for a stream that was cut off; without it, the same.
        """
        check_url(url)
        self.url, self._find = url, find
        timeout = httpx.Timeout(seconds, connect=min(5.0, seconds))
        headers = authorization(token)
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=timeout,
            transport=transport,
            trust_env=False,
            verify=url.startswith("https"),
        )
        self._pause = pause
        self._clock = clock
        self._end = weakref.finalize(self, self._http.close)

    def close(self) -> None:
        """Let go of the connection."""
        self._end()

    def _resumed(
        self, path: str, params: Mapping[str, Any], *, after: int, seconds: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """The events of a stream, asked for again after the last one whenever it is cut off."""
        until = None if seconds is None else self._clock() + seconds
        heard, waited, pause = False, 0.0, 0.1
        while True:
            problem: Exception | None = None
            try:
                for event in self._events(path, {**params, "after": after}, until):
                    heard, waited, pause = True, 0.0, 0.1
                    if event:
                        after = event.get("sequence", after)
                        yield event
                        if event["kind"] == "end":
                            return
                    if until is not None and self._clock() >= until:
                        return
                if not params["follow"]:
                    return
            except (httpx.RequestError, e.Unavailable) as error:  # it is away, or stands by meanwhile
                if until is not None and self._clock() >= until:
                    return
                if not heard or waited >= RECONNECT_SECONDS or isinstance(error, NoStoker):
                    raise self._unreachable(error) from None
                problem = error
            if not waited:
                yield {"kind": "cut", "message": str(problem or "the server ends")}
            self._pause(pause)
            waited, pause = waited + pause, min(_LONGEST_PAUSE_SECONDS, pause * 2)
            if self._find is not None:
                with suppress(e.Unavailable):  # nobody leads yet
                    self.url, token = self._find()
                    self._http.base_url = httpx.URL(self.url)
                    self._http.headers.update(authorization(token))

    def _events(self, path: str, params: Mapping[str, Any], until: float | None) -> Iterator[dict[str, Any]]:
        """The events of one answer; an empty one when it begins, and for every sign of life."""
        silence = _SILENCE_SECONDS if until is None else max(0.01, min(_SILENCE_SECONDS, until - self._clock()))
        timeout = httpx.Timeout(silence, connect=5.0)
        with self._http.stream("GET", path, params=params, timeout=timeout) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise_refusal(answer)
            yield {}
            for line in answer.iter_lines():
                yield self._event(line) if line else {}

    def _event(self, line: str) -> dict[str, Any]:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            raise self._no_stoker() from None
        return event

    def _list(self, path: str, key: str, **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", path, params=params).get(key, [])
        return found

    def _pages(
        self, path: str, key: str, mark: str, limit: int, start: int | str | None = None, **more: str
    ) -> Iterator[dict[str, Any]]:
        """What stands in all pages of a list, each asked for when the one before it is used up."""
        while True:
            page = self._call("GET", path, params={"limit": limit, **more} | ({} if start is None else {mark: start}))
            yield from page.get(key, [])
            start = page.get("next")
            if start is None:
                return

    def _call(self, method: str, path: str, body: object = None, **arguments: Any) -> Any:
        if body is not None:
            arguments |= {"content": argument("body", body, as_json), "headers": {"Content-Type": "application/json"}}
        answer = self._request(method, path, **arguments)
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._no_stoker()
        return found

    def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.RequestError as error:
            raise self._unreachable(error) from None
        if answer.status_code >= 400:
            raise_refusal(answer)
        return answer

    def _unreachable(self, error: Exception) -> e.Unavailable:
        if isinstance(error, e.Unavailable):
            return error
        return e.Unavailable(f"the server at {self.url} does not answer: {error}", fix="start it: stoker up")

    def _no_stoker(self) -> NoStoker:
        return NoStoker(f"what answers at {self.url} is no Stoker server")
