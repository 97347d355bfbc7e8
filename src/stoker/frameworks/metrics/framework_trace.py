"""A trace of some seconds of training, made by the framework itself when the supervisor asks for one (runtime/profile.py).

Asked for and answered by files beside that of the beat; begun and ended between two steps. Written to the job's directory, where
TensorBoard finds it, or, where there is none, beside the beat.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from typing import Any, Callable, Dict, Optional

from stoker.beat_files import TRACE_ANSWER, TRACE_REQUEST

_LOOK_SECONDS = 0.2


class Tracer:
    """Makes them in this process."""

    def __init__(self, folder: str, may: Callable[[], bool]) -> None:
        """`folder`: that of the beat. `may`: whether it is this process, of several, that is to make them."""
        self._folder = folder
        self._may = may
        self._look_at = 0.0
        self._known = ""
        self._until = 0.0
        self._end: Optional[Callable[[], str]] = None
        request = self._request()
        self._known = str(request.get("id", ""))  # of a program that ran before this one

    def look(self, now: float) -> bool:
        """Begin or end one, if it is time; returns whether. Called when a step is over; `now`: of time.perf_counter()."""
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        if self._end is not None:
            is_time = now >= self._until
            if is_time:
                self._finish()
            return is_time
        if not os.path.exists(os.path.join(self._folder, TRACE_REQUEST)) or not self._may():
            return False
        asked = self._request()
        is_new = bool(asked) and str(asked["id"]) != self._known
        if is_new:
            self._known = str(asked["id"])
            self._begin(now, float(asked["seconds"]))
        return is_new

    def _begin(self, now: float, seconds: float) -> None:
        try:
            self._end = _begin_torch(self._target()) if "torch" in sys.modules else _begin_tensorflow(self._target())
        except Exception as error:  # of the framework's: such as a profiler of the program's own that runs
            self._answer({"error": f"{type(error).__name__}: {error}"})
            return
        if self._end is None:
            self._answer({})
            return
        self._until = now + seconds
        self._answer({"goes_on": True})

    def _finish(self) -> None:
        end, self._end = self._end, None
        try:
            self._answer({"path": end() if end is not None else ""})
        except Exception as error:
            self._answer({"error": f"{type(error).__name__}: {error}"})

    def _target(self) -> str:
        """The folder of the trace."""
        logs = os.environ.get("AIP_TENSORBOARD_LOG_DIR", "")
        base = logs if logs and "://" not in logs else self._folder
        replica = f"{os.environ.get('STOKER_ROLE', 'chief')}-{os.environ.get('STOKER_INDEX', '0')}"
        folder = os.path.join(base, "traces", f"{self._known}-{replica}")
        os.makedirs(folder, exist_ok=True)
        return folder

    def _request(self) -> Dict[str, Any]:
        try:
            with open(os.path.join(self._folder, TRACE_REQUEST), encoding="utf-8") as file:
                found = json.load(file)
            return found if isinstance(found, dict) and "id" in found and "seconds" in found else {}
        except (OSError, ValueError):
            return {}

    def _answer(self, told: Dict[str, Any]) -> None:
        path = os.path.join(self._folder, TRACE_ANSWER)
        try:
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump({"id": self._known, "at": time.time(), **told}, file)
            os.replace(path + ".part", path)
        except OSError:
            return  # who asked hears that there is none


def _begin_torch(folder: str) -> Callable[[], str]:
    profiling = import_module("torch.profiler")

    profiler = profiling.profile()
    profiler.start()

    def end() -> str:
        path = os.path.join(folder, "trace.pt.trace.json.gz")
        profiler.stop()
        profiler.export_chrome_trace(path)
        return path

    return end


def _begin_tensorflow(folder: str) -> Optional[Callable[[], str]]:
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None:
        return None
    tensorflow.profiler.experimental.start(folder)

    def end() -> str:
        tensorflow.profiler.experimental.stop()
        return folder

    return end
