"""What a job of a campaign runs. It testifies, beside Stoker, in files that Stoker knows nothing of.

`python -S -I program.py FOLDER MARK KIND SECONDS LINES`. One file a replica, `JOB.ROLE-INDEX.witness`, to which a run adds

    start ATTEMPT RESTART PID SECONDS_SINCE_BOOT
    overlap ATTEMPT RESTART …       another attempt of this job runs at this moment
    end ATTEMPT RESTART …

Whether another attempt runs is asked of the kernel: every run holds a lock on the byte of its attempt's number in `JOB.lock`,
which nobody but its own death or end can take away.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time

KINDS = ("plain", "chatty", "writes", "leaves_children", "hides_children", "again", "fails")
FAILING_EXIT = 3
_AGAIN_EXIT = 200  # above 127: started again in place
_CHILD_SECONDS = "3600"


def main() -> int:
    """Testify, print, do what this kind does, testify."""
    folder, mark, kind, seconds, lines = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
    job, attempt, restart = (os.environ[f"STOKER_{name}"] for name in ("JOB_NAME", "ATTEMPT", "RESTART_COUNT"))
    replica = f"{os.environ['STOKER_ROLE']}-{os.environ['STOKER_INDEX']}"
    witness = os.open(os.path.join(folder, f"{job}.{replica}.witness"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def testify(word: str) -> None:
        os.write(
            witness, f"{word} {attempt} {restart} {os.getpid()} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n".encode()
        )
        os.fsync(witness)

    is_alone = _lock(os.path.join(folder, f"{job}.lock"), int(attempt))
    testify("start")
    if not is_alone:
        testify("overlap")
    if kind in ("leaves_children", "hides_children"):
        _leave_children(mark, is_hidden=kind == "hides_children")
    for n in range(lines):
        print(f"line {attempt} {restart} {n}", flush=True)
        if kind == "writes":
            _write(f"part-{n}")
        if seconds:
            time.sleep(seconds / lines)
    testify("end")
    if kind == "again" and int(restart) == int(attempt) - 1:
        return _AGAIN_EXIT
    return FAILING_EXIT if kind == "fails" else 0


def _lock(path: str, attempt: int) -> bool:
    """Say that this attempt runs, for the life of this process. Returns whether no other does."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_SH, 1, attempt)
    return _is_free(lock, 0, attempt) and _is_free(lock, attempt + 1, 0)


def _is_free(lock: int, begin: int, length: int) -> bool:
    """Whether no other process holds a lock on these bytes; a length of 0 reaches to the end."""
    asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, begin, length, 0)
    (kind,) = struct.unpack_from("h", fcntl.fcntl(lock, fcntl.F_GETLK, asked))
    return bool(kind == fcntl.F_UNLCK)


def _leave_children(mark: str, *, is_hidden: bool) -> None:
    """A child, one in a session of its own, and an orphan; hidden ones have cleared their environment."""
    for orphaned, session in ((False, False), (False, True), (True, True)):
        child = os.fork()
        if child:
            if orphaned:
                os.waitpid(child, 0)
            continue
        if session:
            os.setsid()
        if orphaned and os.fork():
            os._exit(0)
        for descriptor in range(3):  # a reader of our output would wait for them
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        os.execve("/bin/sleep", [mark, _CHILD_SECONDS], {} if is_hidden else dict(os.environ))


def _write(name: str) -> None:
    """A file of some size; a full disk is this program's to bear."""
    try:
        with open(name, "wb") as file:
            file.write(b"x" * 100_000)
    except OSError as error:
        print(f"not written: {error.strerror}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
