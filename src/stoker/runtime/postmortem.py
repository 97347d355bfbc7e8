"""What a program that has failed died of, as far as its last words, the kernel and the disks tell."""

from __future__ import annotations

import os
import signal
import tempfile
from typing import Any, Dict, Iterable, Optional

from stoker.beat_files import SEEN

from .failure_signatures import Found, find_signature, plain
from .kernel import Kernel
from .lines import Log
from .program import Ended
from .sandbox import Sandbox
from .signature_row import ANYWHERE, AS_EXIT_CODE
from .signature_table import AGAIN

UNSEEN = "NOT_DISTRIBUTED"  # the sign of what cannot be verified

_LITTLE_BYTES = 16 << 20
_MOST_MESSAGE_CHARACTERS = 2048
_MEMORY_SIGNS = ("HOST_OOM", "MEMORY_ERROR")


def examine(ended: Ended, log: Log, kernel: Kernel, pid: int, devices: str, folder: str, sandbox: Sandbox) -> Found:
    """The sign of a program's failure, and the line that shows it."""
    was_killed = ended.code == -signal.SIGKILL and not ended.was_stopped
    told = kernel.evidence(pid, devices, was_killed=was_killed)
    found = find_signature(log.last_output, log.last_errors, told, code=ended.code)
    if ended.out_of_memory and found.sign not in _MEMORY_SIGNS:
        return Found("HOST_OOM", "the kernel killed it for memory")
    if found.sign in ("", "NO_SPACE") and ended.code not in (-signal.SIGTERM, -signal.SIGKILL):
        full = _full_disk([folder, tempfile.gettempdir()])
        if full is not None:
            return Found("DISK_FULL", plain(f"{full}. {found.evidence}".rstrip()))
    return Found("SANDBOX", found.evidence) if sandbox.keeps_from(found.sign, found.evidence) else found


def last_words(log: Log, ended: Ended, *, out_of_memory: bool) -> str:
    """The traceback that the program left, cut to size from its oldest frames, and why it ended."""
    lines = list(log.last_errors)
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    traceback = "\n".join(lines[starts[-1] :]) if starts and ended.code > 0 else ""
    if len(traceback) > _MOST_MESSAGE_CHARACTERS:
        traceback = "…" + traceback[-_MOST_MESSAGE_CHARACTERS:]
    reason = "Error"
    if out_of_memory and ended.code < 0:
        reason = "OOMKilled"
    elif ended.code < 0:
        reason = f"Signal {signal.Signals(-ended.code).name}"
    return f"{traceback}\nTermination reason: {reason}.".lstrip()


def unverified(request: Dict[str, Any], beat_folder: str) -> str:
    """Why a program that ended well is not known to have trained as was asked; empty: it is.

    One that was to be distributed and trained where nobody looked may have trained in each replica alone.
    """
    asked = request["env"].get("STOKER_DISTRIBUTE", "none")
    is_shared = not request["is_alone"] or len(request["devices"]) > 1
    was_seen = os.path.exists(os.path.join(beat_folder, SEEN))
    if asked == "none" or request["role"] != "chief" or not is_shared or was_seen:
        return ""
    return f"nothing tells how it trained: no step of Keras or PyTorch was seen (--distribute {asked})"


def examine_text(text: str) -> Found:
    """The sign of what kept a program from starting."""
    return find_signature([], text.splitlines())


def is_effect(sign: str) -> bool:
    """Whether it is most often the effect of a peer's end, or may pass."""
    return AGAIN.get(sign) == ANYWHERE  # so is every effect


def is_out_of_memory(found: Found) -> bool:
    """Whether it was the machine's memory, not a GPU's, that ran out."""
    return found.sign in _MEMORY_SIGNS


def may_restart_in_place(found: Found) -> bool:
    """Whether the same may be started again at the same place."""
    return AGAIN.get(found.sign, AS_EXIT_CODE) in (ANYWHERE, AS_EXIT_CODE)


def _full_disk(folders: Iterable[str]) -> Optional[str]:
    """The first of these folders whose disk has no room, in words."""
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            continue
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        if size and free < min(_LITTLE_BYTES, size // 100 + 1):
            return f"the disk of {folder} is full: {free >> 20} of {size >> 20} MiB are free"
        if disk.f_files and not disk.f_favail:
            return f"the disk of {folder} can hold no more files"
    return None
