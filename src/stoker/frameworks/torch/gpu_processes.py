"""One process for each GPU of a machine, as PyTorch wants them: the program is started again for every GPU but the first.

They begin before PyTorch is imported, and find their places by the variables of torchrun. The first one is the replica: it ends
when all have ended, and with the first that fails. What the others print is left out, their errors are not.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from typing import Any, Callable, Dict, List, Sequence

from stoker.frameworks.entry.hooks import PROGRAM
from stoker.frameworks.entry.program_source import first_use, launcher, main_file
from stoker.frameworks.messages import STOPPED_EXIT_CODE, Refused, say
from stoker.frameworks.processes.choice import choose_torch
from stoker.frameworks.processes.cluster import Cluster, at_start, cluster_of
from stoker.frameworks.replaced import EXCEPTHOOK, replace


class _Own:
    """Names by which a program distributes itself."""

    _NAMES = frozenset(
        "init_process_group DistributedDataParallel fully_shard FullyShardedDataParallel init_device_mesh "
        "DistributedSampler".split()
    ) | {f"import {name}" for name in "accelerate lightning pytorch_lightning deepspeed fastai composer".split()}
    _TRAINERS = re.compile(r"(transformers|trl|sentence_transformers|setfit)\.(.+\.)?\w*(Trainer|TrainingArguments)")

    def __contains__(self, name: object) -> bool:
        return name in self._NAMES or bool(isinstance(name, str) and self._TRAINERS.fullmatch(name))


OWN = _Own()
"""What a program uses that distributes itself."""

_STARTERS = frozenset(
    "mp.spawn mp.Process multiprocessing.spawn multiprocessing.Process torch.multiprocessing.spawn start_processes "
    "notebook_launcher".split()
) | {f"import {name}" for name in "lightning pytorch_lightning fastai ray horovod keras".split()}
"""What starts the processes itself, or needs none."""

LOCAL = "STOKER_LOCAL_PROCESS"
"""Which of its machine's processes this is. The first has none."""

_HOW = dict.fromkeys(("import lightning", "import pytorch_lightning"), "tell its Trainer the num_nodes")
_HOW_ELSE = "have it call init_process_group (by an option of its own, perhaps)"

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LEAVE_SECONDS = 30.0


def begin(folder: str) -> None:
    """Called in the program's process, before PyTorch is executed. `folder`: where it was started. Raises Refused."""
    if os.environ.get(LOCAL):
        _go_with_the_first()
        return
    asked = os.environ.get("STOKER_DISTRIBUTE", "none")
    cluster = cluster_of(os.environ)
    if asked not in ("auto", "ddp", "fsdp") or cluster.rank < 0 or cluster.devices < 2 or launcher():
        return
    file = main_file()  # none of `python -c`, whose text nobody has looked into
    if file and (first_use({"torch"}, file) is None or first_use(_STARTERS, file) is not None):
        return
    is_plain = first_use(OWN, file) is None
    if is_plain and choose_torch(asked, cluster) == "none":
        return
    devices = [name for name in at_start("CUDA_VISIBLE_DEVICES").split(",") if name]
    if is_plain and not cluster.is_pretended and len(devices) != cluster.devices:
        raise Refused(
            f"the replica has {cluster.devices} GPUs, and CUDA_VISIBLE_DEVICES names {len(devices)}",
            "leave that variable as it is, or say --distribute none",
        )
    places = [place_of(number, cluster, devices, is_plain=is_plain) for number in range(cluster.devices)]
    own = os.environ.pop(PROGRAM, None)  # each is the program of its own
    environments = [{**os.environ, **place, LOCAL: str(number)} for number, place in enumerate(places)]
    os.environ.update(places[0])
    if own is not None:
        os.environ[PROGRAM] = own
    if cluster.is_chief:
        say(f"starts {cluster.devices} processes on each machine, one for each GPU")
    Others(environments[1:], folder).start()


def place_of(number: int, cluster: Cluster, devices: Sequence[str], *, is_plain: bool) -> Dict[str, str]:
    """The variables of one of a machine's processes. `is_plain`: the program knows nothing of GPUs, and sees one of `devices`."""
    found = {
        "RANK": str(cluster.rank * cluster.devices + number),
        "WORLD_SIZE": str(cluster.replicas),
        "LOCAL_RANK": "0" if is_plain else str(number),
        "LOCAL_WORLD_SIZE": str(cluster.devices),
    }
    if is_plain:
        found["STOKER_DEVICES"] = "/gpu:0"
        if len(devices) == cluster.devices:
            found["CUDA_VISIBLE_DEVICES"] = devices[number]
    return found


def must_meet(torch: Any, name: str, why: str) -> None:
    """See to it that the several processes of a program train together. `name`, `why`: of what it was left to do so by itself.

    Raises Refused at the first step.
    """
    hooks: Any = import_module("torch.optim.optimizer")
    count = int(os.environ["WORLD_SIZE"])

    def look(*_: Any) -> None:
        handle.remove()
        together = torch.distributed
        if not (together.is_available() and together.is_initialized() and together.get_world_size() >= count):
            raise Refused(
                f"the program has what distributes it ({why}) and has not used it: its {count} processes train each by itself",
                f"{_HOW.get(name, _HOW_ELSE)}, or say --distribute none",
            )

    handle = hooks.register_optimizer_step_pre_hook(look)


def _go_with_the_first() -> None:
    """When that is killed, this one is, too. And its steps are those of the first."""
    os.environ["STOKER_STEP_METRICS"] = "none"
    os.environ["CUDA_VISIBLE_DEVICES"] = at_start("CUDA_VISIBLE_DEVICES")
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # not Linux


class Others:
    """The processes of a machine but the first, seen from there."""

    def __init__(self, environments: List[Dict[str, str]], folder: str) -> None:
        self._environments = environments
        self._folder = folder
        self._processes: List["subprocess.Popen[bytes]"] = []
        self._has_ended = False  # this one, or all because of one

    def start(self) -> None:
        """Start the program's command once more for each GPU, and somebody who waits for it."""
        for number, environment in enumerate(self._environments, start=1):
            is_there = threading.Event()
            threading.Thread(target=self._run, args=(number, environment, is_there), daemon=True).start()
            is_there.wait()
        replace(EXCEPTHOOK, {"sys:excepthook": self._ends_all})
        own = os.getpid()
        atexit.register(lambda: self._leave() if os.getpid() == own else None)

    def _ends_all(self, before: Callable[..., Any]) -> Callable[..., None]:
        def failed(*error: Any) -> None:
            before(*error)
            self._end()

        return failed

    def _run(self, number: int, environment: Dict[str, str], is_there: threading.Event) -> None:
        """Start one and wait for it, in a thread that lives as long as it does: Linux takes its end for that of the parent.

        The first that fails ends all: the others would wait for it for ever.
        """
        command = [sys.executable, *getattr(sys, "orig_argv", [sys.executable, *sys.argv])[1:]]
        where = self._folder or None
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=where,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                close_fds=False,
            )
            self._processes.append(process)
        finally:
            is_there.set()
        code = process.wait()
        if code in (STOPPED_EXIT_CODE, -signal.SIGTERM):
            time.sleep(_LEAVE_SECONDS)  # the first is told to stop as well, and may have something to save
        if not code or self._has_ended:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        say(f"process {number} of this machine {how}: the others end, too")
        self._end()
        sys.stderr.flush()
        sys.stdout.flush()
        if code == -signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)  # for want of memory perhaps: whoever looks into that sees the same
        os._exit(code if code > 0 else 128 - code)

    def _leave(self) -> None:
        """The first has come to its end, and so do the others about now."""
        until = time.monotonic() + _LEAVE_SECONDS
        is_killed = False
        for process in self._processes if not self._has_ended else ():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                is_killed = True
        self._end()
        if is_killed:
            say(f"a process of this machine went on {_LEAVE_SECONDS:.0f} s after the first had ended, and was killed")
            sys.stdout.flush()
            os._exit(1)

    def _end(self) -> None:
        self._has_ended = True
        for process in self._processes:
            if process.poll() is None:
                process.kill()
