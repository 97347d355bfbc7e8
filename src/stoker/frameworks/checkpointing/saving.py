"""Writes checkpoints beside the training: a copy is taken at once, and goes to the disk in a thread.

Each process writes what is its own into the same draft and says so by a file in it; the chief renames the draft into place when
all have. What one of them cannot write makes the others give up this one: training goes on, and the one before is kept.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from stoker.frameworks.checkpointing.parts.part import Write, file_of
from stoker.frameworks.messages import say
from stoker.frameworks.metrics.meter import tell_saved

from .checkpoints import Checkpoints, files_of, proof
from .interval import Rhythm

_MOST_WAIT_SECONDS = 600.0
_LAST_WAIT_SECONDS = 5.0
_LEAVE_SECONDS = 60.0


class Saved:
    """A checkpoint that is being written, or was."""

    def __init__(self, number: int, step: int) -> None:
        self.number = number  # among the checkpoints
        self.step = step  # of the training
        self.stall_seconds = 0.0  # for which training stood
        self.whole_seconds = 0.0  # until it counted
        self.has_written = threading.Event()  # what is this process's own
        self.has_failed = False
        self.is_given_up = False
        self.is_known = False  # to whoever decides when to save next


class Saving:
    """The checkpoints that one process writes with others, one after another."""

    def __init__(self, checkpoints: Checkpoints, rank: int, count: int, attempt: str) -> None:
        """`attempt`: the same in all processes, and another when they are started again."""
        self._checkpoints = checkpoints
        self._rank, self._count = rank, count
        self._attempt = attempt
        self._thread: Optional[threading.Thread] = None
        self._count_of_saves = 0  # the same in all processes
        self.last: Optional[Saved] = None

    @property
    def is_busy(self) -> bool:
        """Whether the last one is still being written."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self,
        number: int,
        state: Dict[str, Any],
        stages: Sequence[Callable[[str], Write]],
        began: Optional[float] = None,
    ) -> Saved:
        """Take a copy and begin to write it.

        `state`: what is said of it. `stages`: as in Part. `began`: since when training stands for it (monotonic).
        """
        began = time.monotonic() if began is None else began
        saved = self.last = Saved(number, state.get("step", number))
        self._count_of_saves += 1
        draft = ""
        try:
            draft = self._checkpoints.begin(number, f"{self._attempt}-{self._count_of_saves}")
            writes = [stage(draft) for stage in stages]
        except Exception as error:  # of a disk, or of what cannot be pickled
            self._fail(saved, error)
            self._clear(draft)
            saved.has_written.set()
            return saved
        saved.stall_seconds = time.monotonic() - began
        arguments = (saved, draft, state, writes, began)
        self._thread = threading.Thread(target=self._write, args=arguments, name="stoker-checkpoint")
        self._thread.start()
        return saved

    def tell(self, rhythm: Rhythm) -> None:
        """Let it know what the last one has cost, once it counts."""
        last = self.last
        if last is not None and last.whole_seconds and not last.is_known:
            last.is_known = True
            rhythm.written(last.whole_seconds)

    def wait(self) -> None:
        """Until the last one counts, or was given up."""
        if self._thread is not None:
            self._thread.join()

    def leave(self) -> None:
        """The loops are over, and the program may end: where nothing can be written then, it is written now."""
        if self._thread is not None and self._checkpoints.is_remote:
            self._thread.join(_LEAVE_SECONDS)

    def _write(self, saved: Saved, draft: str, state: Dict[str, Any], writes: List[Write], began: float) -> None:
        try:
            for write in writes:
                write()
            proved = self._prove(draft, saved.number)
            saved.has_written.set()
            if self._rank:
                return
            others = self._gather(saved, draft)
            if others is None:
                return
            self._checkpoints.commit(draft, saved.number, {**state, "processes": self._count}, {**proved, **others})
            saved.whole_seconds = time.monotonic() - began
            tell_saved(saved.step, saved.stall_seconds, saved.whole_seconds, self._checkpoints.last_bytes)
        # Of a disk, a peer that has gone, PyTorch (whose CheckpointException is no Exception): training may go on.
        except BaseException as error:
            self._fail(saved, error)
        finally:
            saved.has_written.set()
            self._clear(draft)

    def _clear(self, draft: str) -> None:
        """Remove what is left of it, if it is not for the chief to do."""
        if draft and (not self._rank or self._checkpoints.is_remote):
            shutil.rmtree(draft, ignore_errors=True)

    def _fail(self, saved: Saved, error: BaseException) -> None:
        saved.has_failed = True
        if not saved.is_given_up:
            why = (str(error).strip() or repr(error)).splitlines()[-1]
            say(f"the checkpoint of step {saved.step} could not be written, the one before is kept: {why}")

    def _prove(self, draft: str, number: int) -> Dict[str, List[Any]]:
        """Take the proof of this process's own files, and tell the chief."""
        is_apart = self._checkpoints.is_remote  # with nobody else's files in it
        mine = [name for name in files_of(draft) if is_apart or _owner(name) == self._rank]
        proved = {name: proof(os.path.join(draft, name)) for name in mine}
        if self._rank:
            self._checkpoints.hand_in(draft, number, self._rank, proved)
        return proved

    def _gather(self, saved: Saved, draft: str) -> Optional[Dict[str, List[Any]]]:
        """The proofs of all others. None: it is given up."""
        until, found = time.monotonic() + _MOST_WAIT_SECONDS * (6 if self._checkpoints.is_remote else 1), {}
        is_last = False
        for rank in range(1, self._count):
            word = self._checkpoints.handed_in(draft, rank)
            while word is None:
                if saved.is_given_up or time.monotonic() > until:
                    say(
                        f"the checkpoint of step {saved.step} is given up, the one before is kept: process {rank} has not "
                        "written its part"
                    )
                    saved.has_failed = True
                    return None
                if not is_last and not threading.main_thread().is_alive():
                    # The program has ended, and this thread alone keeps it: others may have gone, too.
                    is_last, until = True, min(until, time.monotonic() + _LAST_WAIT_SECONDS)
                time.sleep(self._checkpoints.look_seconds)
                word = self._checkpoints.handed_in(draft, rank)
            found.update(word)
        return found


def _owner(name: str) -> int:
    """Whose a file is, by its name in the draft; -1: that is not known, and the chief looks at it when all have written."""
    for rank_after in (file_of(0)[:-1], "jax-", os.path.join("torch", "__")):
        digits = name[len(rank_after) :].partition("_")[0].partition(".")[0]
        if name.startswith(rank_after) and digits.isdigit():
            return int(digits)
    return -1
