"""What a replica's processes do: their stacks now, where their time goes for some seconds, and a trace of their framework.

The engine puts a request into the replica's folder; what is found goes the way of output, in a stream of its own. Stacks come
from py-spy (no change to the program, which goes on meanwhile); the trace is made by the program's framework
(frameworks/metrics/framework_trace.py), and stays where the program can write: in the job's directory, or beside its beat.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import threading
import time
from collections import Counter
from typing import Any, Callable, Dict, List

from stoker.beat_files import TRACE_ANSWER, TRACE_REQUEST

from .hang import command_of, find_spy, stack
from .lines import Log

STREAM = "profile"
MOST_SECONDS = 60.0
_A_SECOND = 50  # samples
_MOST_PROCESSES = 8
_MOST_STACK_LINES = 80
_MOST_LINES = 20
_MOST_CHARACTERS = 300
_PATIENCE_SECONDS = 15.0  # for the samples
_TRACE_SECONDS = 40.0  # for a step to end, and for the trace to be written: of short steps it is large
_LOOK_SECONDS = 0.1
_MOST_ANSWER_BYTES = 1 << 16


class Profiler:
    """Answers one request after the other."""

    def __init__(self, beat_folder: str, log: Log, processes: Callable[[], List[int]]) -> None:
        """`processes`: the ids of all of the program's."""
        self._beat_folder = beat_folder
        self._log = log
        self._processes = processes
        self._thread: "threading.Thread | None" = None

    def begin(self, number: str, seconds: float) -> bool:
        """Look into the processes for so long. False: it still does so for another request."""
        if self._thread is not None and self._thread.is_alive():
            return False
        seconds = max(0.0, min(MOST_SECONDS, seconds))
        self._thread = threading.Thread(target=self._answer, args=(number, seconds), name="profiler", daemon=True)
        self._thread.start()
        return True

    def _answer(self, number: str, seconds: float) -> None:
        pids = self._processes()[:_MOST_PROCESSES]
        if seconds:
            self._ask_for_trace(number, seconds)
        for pid in pids:
            self._tell(number, process=pid, command=command_of(pid), stack=_cut(stack(pid)))
        spies = {pid: _record(pid, seconds) for pid in pids} if seconds and find_spy() else {}
        for pid, spy in spies.items():
            if spy is not None:
                samples, lines = _hottest(spy, seconds)
                if samples:
                    self._tell(number, process=pid, samples=samples, lines=lines)
        self._tell(number, trace=self._trace(number, seconds), has_spy=bool(find_spy()), is_over=True)

    def _ask_for_trace(self, number: str, seconds: float) -> None:
        """Write into the program's own folder, in which links may lie that lead anywhere: none is followed."""
        part, flags = f".{secrets.token_hex(8)}.part", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            folder = os.open(self._beat_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                with os.fdopen(os.open(part, flags, 0o644, dir_fd=folder), "w", encoding="utf-8") as file:
                    os.fchmod(file.fileno(), 0o644)
                    json.dump({"id": number, "seconds": seconds}, file)
                os.replace(part, TRACE_REQUEST, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.close(folder)
        except OSError:
            pass  # the program has put something in the way

    def _trace(self, number: str, seconds: float) -> Dict[str, Any]:
        """What became of it, as the program tells: `path`, or `error`; empty: it has no steps that we see."""
        path, until = os.path.join(self._beat_folder, TRACE_ANSWER), time.monotonic() + seconds + _TRACE_SECONDS
        late = "no step ended"
        while seconds and self._processes():
            if time.monotonic() > until:
                return {"error": f"{late} within {_TRACE_SECONDS:.0f} s"}
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    found = json.loads(os.read(descriptor, _MOST_ANSWER_BYTES))
                finally:
                    os.close(descriptor)
                if found["id"] == number:
                    told = {name: str(found[name])[:_MOST_CHARACTERS] for name in ("path", "error") if name in found}
                    if told or not found.get("goes_on"):
                        return told
                    late = "it was not written"
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                pass
            if not os.path.exists(os.path.join(self._beat_folder, "steps.jsonl")):
                break  # nobody is there who would make one
            time.sleep(_LOOK_SECONDS)
        return {}

    def _tell(self, number: str, **found: Any) -> None:
        self._log.write(STREAM, json.dumps({"id": number, **found}))


def _cut(lines: List[str]) -> List[str]:
    """So many, and none too long: one record has to fit into what is shipped at once."""
    return [line[:_MOST_CHARACTERS] for line in lines[:_MOST_STACK_LINES]]


def _record(pid: int, seconds: float) -> "subprocess.Popen[str] | None":
    """Sample a process: where it is, so many times a second."""
    command = [find_spy(), "record", "--pid", str(pid), "--duration", str(max(1, round(seconds)))]
    more = [
        "--rate",
        str(_A_SECOND),
        "--format",
        "raw",
        "--output",
        "/dev/stderr",
    ]  # what it says of itself goes to the other
    try:
        return subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except OSError:
        return None


def _hottest(spy: "subprocess.Popen[str]", seconds: float) -> "tuple[int, List[List[Any]]]":
    """How many samples there are, and the lines in which most of them are, each with its count."""
    try:
        _, told = spy.communicate(timeout=seconds + _PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        spy.kill()
        _, told = spy.communicate()
    found: "Counter[str]" = Counter()
    for line in told.splitlines():
        frames, _, count = line.rpartition(" ")
        if count.isdigit() and frames:
            found[frames.rpartition(";")[2][:_MOST_CHARACTERS]] += int(count)
    return sum(found.values()), [[where, count] for where, count in found.most_common(_MOST_LINES)]
