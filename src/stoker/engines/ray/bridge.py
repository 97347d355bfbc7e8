"""The process beside the server in which Ray's driver runs, and the way to it: lines of JSON, there and back.

Ray ends the process of a driver that has lost its cluster, and takes a second to import. So it has one of its own, which is
started anew whenever it has ended. Nothing here waits for Ray but `ask`, and that for so long only.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from typing import Any

from stoker.core.errors import EngineError, StokerError, Unavailable

from .hosts.head import Head

PAUSE_SECONDS = 2.0
"""Between the end of a driver and the start of the next."""

_log = logging.getLogger("stoker.engine")


class Bridge:
    """Keeps a driver, and speaks to it. Safe to use from any thread."""

    def __init__(
        self,
        address: str,
        namespace: str,
        *,
        heard: Callable[[Mapping[str, Any]], None],
        head: Head | None = None,
    ) -> None:
        """`heard` is called with every event, in one thread; with {"event": "gone"} whenever the driver has ended.

        `head`: brought up before each driver.
        """
        self._head = head
        self._command = [sys.executable, "-m", "stoker.engines.ray.driver", address, namespace]
        self._heard = heard
        self._lock = threading.Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._next = 0
        self._process: subprocess.Popen[str] | None = None
        self._closed = threading.Event()
        self.problem = "it has not answered yet"
        self._thread = threading.Thread(target=self._keep, name="ray-bridge", daemon=True)
        self._thread.start()

    def ask(self, do: str, *, seconds: float = 10.0, **words: Any) -> Any:
        """Have the driver do something, and wait for its answer. Raises Unavailable, or EngineError with what it says."""
        future = self.tell(do, **words)
        try:
            return future.result(seconds)
        except TooLate:
            raise Unavailable(f"Ray did not answer within {seconds:g} s") from None

    def tell(self, do: str, **words: Any) -> Future[Any]:
        """Have the driver do something, after all that it was told before. Raises Unavailable if none is there."""
        future: Future[Any] = Future()
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                raise Unavailable(
                    "Ray cannot be reached now", fix="see whether its head runs; stoker status shows the address"
                )
            self._next += 1
            self._asked[self._next] = future
            try:
                process.stdin.write(json.dumps({"id": self._next, "do": do, **words}) + "\n")
                process.stdin.flush()
            except OSError:
                del self._asked[self._next]
                raise Unavailable("the Ray cluster cannot be reached now", fix="stoker status says how it is") from None
        return future

    def close(self) -> None:
        """End the driver. What it started runs on, and what it has on order stays so."""
        self._closed.set()
        with self._lock:
            process = self._process
        if process is not None:
            process.kill()
        self._thread.join()

    def _keep(self) -> None:
        while not self._closed.is_set():
            try:
                self._run_one()
            except Exception:
                _log.exception("the way to the Ray cluster broke; another is looked for")
            self._closed.wait(PAUSE_SECONDS)

    def _run_one(self) -> None:
        if self._head is not None:
            try:
                self._head.ensure()
            except StokerError as error:
                self.problem = f"{error.message}; {error.fix}"
                return
        environment = {**os.environ, **(self._head.environment if self._head else {})}
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            has_spoken = False
            try:
                has_spoken = self._listen(process)
            finally:
                process.kill()
                self._lose()
        if not has_spoken and not self._closed.is_set():
            self.problem = "its driver ended without a word; the server's log has what Ray said"

    def _listen(self, process: subprocess.Popen[str]) -> bool:
        """Hear it to its end. Returns whether it said anything."""
        assert process.stdout is not None
        said: Mapping[str, Any] = {}
        for line in process.stdout:
            said = json.loads(line)
            match said:
                case {"event": "connected"}:
                    with self._lock:
                        self._process = process
                    self.problem = ""
                    self._heard(said)
                case {"event": "refused"}:
                    if said["why"] != self.problem:
                        _log.error("the Ray cluster cannot be used: %s", said["why"])
                    self.problem = said["why"]
                case {"event": _}:
                    self._heard(said)
                case {"id": int(number)}:
                    self._answer(number, said)
        return bool(said)

    def _answer(self, number: int, said: Mapping[str, Any]) -> None:
        with self._lock:
            future = self._asked.pop(number, None)
        if future is None:
            return
        if "error" in said:
            future.set_exception(EngineError(said["error"]))
        else:
            future.set_result(said["answer"])

    def _lose(self) -> None:
        """The driver has ended: who waits for its answer gets none."""
        with self._lock:
            lost, self._asked = self._asked, {}
            was_there, self._process = self._process is not None, None
        for future in lost.values():
            future.set_exception(Unavailable("Ray went away before it answered"))
        if was_there:
            self.problem = "it went away, and is looked for"
            self._heard({"event": "gone"})
