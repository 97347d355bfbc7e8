"""One process for each GPU of a machine, as PyTorch wants them: the program is started again for every GPU but the first.

They begin before PyTorch is imported, and find their places by the variables of torchrun. The first one is the replica: it ends
when all have ended, and with the first that fails. What the others print is left out, their errors are not.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Mapping

from .choice import choose_torch
from .cluster import Cluster, cluster_of
from .hooks import PROGRAM
from .program import first_use, launcher, main_file
from .words import say

OWN = frozenset(
    "init_process_group DistributedDataParallel fully_shard FullyShardedDataParallel init_device_mesh "
    "DistributedSampler Trainer TrainingArguments Seq2SeqTrainer SFTTrainer accelerate lightning pytorch_lightning "
    "deepspeed fastai".split()
)
"""What a program uses that distributes itself."""

_STARTERS = frozenset(
    "spawn start_processes mp_spawn notebook_launcher lightning pytorch_lightning fastai keras".split()
)
"""What starts the processes itself, or needs none."""

LOCAL = "STOKER_LOCAL_PROCESS"
"""Which of its machine's processes this is. The first has none."""

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LEAVE_SECONDS = 60.0


def begin() -> None:
    """Called in the program's process, before PyTorch is executed. Raises Refused."""
    if os.environ.get(LOCAL):
        _go_with_the_first()
        return
    asked = os.environ.get("STOKER_DISTRIBUTE", "none")
    cluster = cluster_of(os.environ)
    if asked not in ("auto", "ddp", "fsdp") or cluster.rank < 0 or cluster.devices < 2 or launcher():
        return
    file = main_file()
    if first_use({"torch"}, file) is None or first_use(_STARTERS, file) is not None:
        return
    is_plain = first_use(OWN, file) is None
    if is_plain and choose_torch(asked, cluster) == "none":
        return
    places = [place_of(number, cluster, os.environ, is_plain=is_plain) for number in range(cluster.devices)]
    own = os.environ.pop(PROGRAM, None)  # each is the program of its own
    environments = [{**os.environ, **place, LOCAL: str(number)} for number, place in enumerate(places)]
    os.environ.update(places[0])
    if own is not None:
        os.environ[PROGRAM] = own
    if cluster.is_chief:
        say(f"starts {cluster.devices} processes on each machine, one for each GPU")
    Others(environments[1:]).start()


def place_of(number: int, cluster: Cluster, variables: Mapping[str, str], *, is_plain: bool) -> Dict[str, str]:
    """The variables of one of a machine's processes. `is_plain`: the program knows nothing of GPUs, and sees one."""
    found = {
        "RANK": str(cluster.rank * cluster.devices + number),
        "WORLD_SIZE": str(cluster.replicas),
        "LOCAL_RANK": "0" if is_plain else str(number),
        "LOCAL_WORLD_SIZE": str(cluster.devices),
    }
    if is_plain:
        found["STOKER_GPUS_PER_NODE"] = "1"
        found["STOKER_DEVICES"] = "/gpu:0"
        visible = [name for name in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        if len(visible) == cluster.devices:
            found["CUDA_VISIBLE_DEVICES"] = visible[number]
    return found


def _go_with_the_first() -> None:
    """When that is killed, this one is, too. And its steps are those of the first."""
    os.environ["STOKER_STEP_METRICS"] = "none"
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # not Linux


class Others:
    """The processes of a machine but the first, seen from there."""

    def __init__(self, environments: List[Dict[str, str]]) -> None:
        self._environments = environments
        self._processes: List["subprocess.Popen[bytes]"] = []
        self._has_failed = False

    def start(self) -> None:
        """The same command once more for each, and somebody who waits for it."""
        command = [sys.executable, *getattr(sys, "orig_argv", [sys.executable, *sys.argv])[1:]]
        for environment in self._environments:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=False
            )
            self._processes.append(process)
            threading.Thread(target=self._wait_for, args=(process,), daemon=True).start()
        before = sys.excepthook

        def failed(*error: Any) -> None:
            self._has_failed = True
            before(*error)

        sys.excepthook = failed
        own = os.getpid()
        atexit.register(lambda: self._leave() if os.getpid() == own else None)

    def _wait_for(self, process: "subprocess.Popen[bytes]") -> None:
        """The first that fails ends all: the others would wait for it for ever."""
        code = process.wait()
        if code and not self._has_failed:
            self._has_failed = True
            number = self._processes.index(process) + 1
            how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
            say(f"process {number} of this machine {how}: the others end, too")
            self._end()
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(code if code > 0 else 128 - code)

    def _leave(self) -> None:
        """The first has come to its end. One that has failed takes the others with it."""
        for process in self._processes:
            try:
                process.wait(0 if self._has_failed else _LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                if not self._has_failed:
                    say(
                        f"a process of this machine goes on {_LEAVE_SECONDS:.0f} s after the first has ended, and is killed"
                    )
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
