"""A client of one server. Every method is one request; refusals come back as the errors that the server raised."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from stoker.core import errors as e

_ERRORS: dict[str, type[e.StokerError]] = {
    "UNAUTHENTICATED": e.Unauthenticated,
    "PERMISSION_DENIED": e.Forbidden,
    "NOT_FOUND": e.NotFound,
    "ALREADY_EXISTS": e.AlreadyExists,
    "ABORTED": e.Conflict,
    "OUT_OF_RANGE": e.TooLarge,
    "UNIMPLEMENTED": e.Unimplemented,
    "UNAVAILABLE": e.Unavailable,
}
_BLOCK_BYTES = 1 << 20


class Client:
    """Talks to a server."""

    def __init__(self, url: str, token: str = "", *, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(60.0, connect=5.0)
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport, trust_env=False)
        self.url = url

    def status(self) -> Any:
        """What the server is and has."""
        return self._call("GET", "/stoker/v1/status")

    def shutdown(self) -> Any:
        """End the server."""
        return self._call("POST", "/stoker/v1/shutdown")

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, with what is free on them."""
        found: list[dict[str, Any]] = self._call("GET", "/stoker/v1/nodes")["nodes"]
        return found

    def submit(self, project: str, body: Mapping[str, Any], *, rehearse: bool = False) -> Any:
        """Submit an AI Platform v1 Job; as a rehearsal, on virtual nodes made for it."""
        path = f"/stoker/v1/projects/{project}/jobs:rehearse" if rehearse else f"/v1/projects/{project}/jobs"
        return self._call("POST", path, json=body)

    def run(self, project: str, body: Mapping[str, Any]) -> Any:
        """Submit a plain command."""
        return self._call("POST", f"/stoker/v1/projects/{project}/jobs:run", json=body)

    def job(self, project: str, name: str) -> Any:
        """A job as AI Platform v1 shows it."""
        return self._call("GET", f"/v1/projects/{project}/jobs/{quote(name, safe='')}")

    def details(self, project: str, name: str) -> Any:
        """A job in Stoker's own words."""
        return self._call("GET", f"/stoker/v1/projects/{project}/jobs/{quote(name, safe='')}")

    def jobs(self, project: str, limit: int = 20) -> list[dict[str, Any]]:
        """Jobs, newest first."""
        path = f"/stoker/v1/projects/{project}/jobs"
        found: list[dict[str, Any]] = self._call("GET", path, params={"limit": limit})["jobs"]
        return found

    def live_jobs(self) -> list[dict[str, Any]]:
        """What waits or runs, of every project."""
        found: list[dict[str, Any]] = self._call("GET", "/stoker/v1/jobs")["jobs"]
        return found

    def story(self, project: str, name: str) -> list[dict[str, Any]]:
        """All that happened to a job."""
        path = f"/stoker/v1/projects/{project}/jobs/{quote(name, safe='')}/story"
        found: list[dict[str, Any]] = self._call("GET", path)["story"]
        return found

    def cancel(self, project: str, name: str) -> None:
        """Want a job to stop."""
        self._call("POST", f"/v1/projects/{project}/jobs/{quote(name, safe='')}:cancel", json={})

    def relabel(self, project: str, name: str, labels: Mapping[str, str]) -> Any:
        """Replace a job's labels."""
        path = f"/v1/projects/{project}/jobs/{quote(name, safe='')}"
        return self._call("PATCH", path, params={"updateMask": "labels"}, json={"labels": dict(labels)})

    def stream(
        self, project: str, name: str, *, logs: bool = True, follow: bool = True, offset: int = 0
    ) -> Iterator[dict[str, Any]]:
        """What happens to a job, as it happens (see api/stream.py). Goes on where it was if the server restarts."""
        path = f"/stoker/v1/projects/{project}/jobs/{quote(name, safe='')}/stream"
        while True:
            params = {"logs": logs, "offset": offset, "follow_to_end": follow}
            try:
                with self._http.stream("GET", path, params=params, timeout=httpx.Timeout(None, connect=5.0)) as answer:
                    if answer.status_code >= 400:
                        answer.read()
                        self._raise(answer)
                    for line in answer.iter_lines():
                        event: dict[str, Any] = json.loads(line)
                        offset = event.get("offset", offset)
                        yield event
                        if event["kind"] == "end":
                            return
            except (httpx.RemoteProtocolError, httpx.ReadError):
                pass  # cut off in the middle: ask again, from where we are
            except httpx.TransportError as error:
                raise self._unreachable(error) from None
            if not follow:
                return

    def exists(self, uri: str) -> bool:
        """Whether the server has a file."""
        try:
            self._call("HEAD", self._file_path(uri))
        except e.NotFound:
            return False
        return True

    def upload(self, path: Path, uri: str, progress: Callable[[int], None] = lambda _: None) -> None:
        """Send a file, in constant memory. `progress` is told the bytes sent so far."""

        def blocks() -> Iterator[bytes]:
            sent = 0
            with open(path, "rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block
                    sent += len(block)
                    progress(sent)

        self._call("PUT", self._file_path(uri), content=blocks())

    def download(self, uri: str) -> bytes:
        """A small file, whole."""
        return self._request("GET", self._file_path(uri)).content

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    @staticmethod
    def _file_path(uri: str) -> str:
        scheme, _, rest = uri.partition("://")
        return f"/stoker/v1/files/{scheme}/{quote(rest)}"

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self._request(method, path, **arguments)
        return answer.json() if answer.content else None

    def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        if answer.status_code >= 400:
            self._raise(answer)
        return answer

    def _unreachable(self, error: Exception) -> e.Unavailable:
        return e.Unavailable(f"the server at {self.url} does not answer: {error}", fix="start it: stoker up")

    @staticmethod
    def _raise(answer: httpx.Response) -> None:
        """Raise the error that the server told."""
        try:
            error = answer.json()["error"]
            status, message, fix = error["status"], error["message"], error.get("fix", "")
        except (ValueError, KeyError, TypeError):
            if answer.status_code == 404:
                raise e.NotFound() from None
            raise e.Unavailable(f"the server answered {answer.status_code}") from None
        violations = [
            e.Violation(v["field"], v["description"])
            for detail in error.get("details", [])
            for v in detail.get("fieldViolations", [])
        ]
        if violations:
            kind = e.NotReady if status == "FAILED_PRECONDITION" else e.BadSpec
            raise kind(violations, fix=fix)
        raise _ERRORS.get(status, e.StokerError)(message, fix=fix)
