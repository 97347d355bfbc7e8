"""What is mounted in a sandbox, in order: given to bubblewrap as open descriptors, and looked at before the program begins.

A program may swap a folder of its own for a link at any moment, also between two looks at its path. So no path is looked up
twice: a folder is opened once, without links, and what bubblewrap has mounted is compared with the descriptor. As the places that
it is mounted on lie in the same living file system, the finished table of mounts is read from outside: bubblewrap's last step is
to copy a pipe of ours to /dev/null, and there it waits until we have looked.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import subprocess
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from .no_links import open_path

_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ
_MADE_SECONDS = 60.0
_NEW_ROOT = "/newroot"  # where bubblewrap builds, until it moves there
_NOT_WHAT_IT_WAS = "its job directory is not what it was"
_CHANGED = (
    "Race condition",
    "/proc/self/fd/",
    "No such file",
    "Not a directory",
    "in mount table",
)  # in bubblewrap's own words
_NEW_ROOT_BYTES = _NEW_ROOT.encode()
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class _Mount(NamedTuple):
    """One line of a table of mounts (proc_pid_mountinfo(5))."""

    device: str
    root: str  # the path in the file system that is mounted
    point: str
    is_writable: bool
    kind: str


class MountList:
    """The mounts of one sandbox, from their list to their check. To be closed."""

    def __init__(self) -> None:
        self.words: List[str] = []  # for bubblewrap
        self._descriptors: List[int] = []
        self._gate = -1
        self._folders: Dict[str, Tuple[str, str, bool]] = {}  # where each is to be: device, path in it, is writable
        self._empty: Set[str] = set()
        self._table: Dict[int, _Mount] = {}

    @property
    def descriptors(self) -> List[int]:
        """What bubblewrap is to inherit. It closes all of them before it starts the command."""
        return list(self._descriptors)

    def bind(self, path: str, *, is_writable: bool = False, at: str = "") -> None:
        """Show a folder or a file, by its real path. `at`: there, and not where it is. Raises OSError if a link is on the way."""
        at = at or path
        try:
            descriptor = open_path(path)
        except NotADirectoryError:
            raise OSError(f"{_NOT_WHAT_IT_WAS}: {path} leads through a link or a file now; remove that") from None
        except (
            FileNotFoundError,
            PermissionError,
        ) as error:  # of these two a caller would take the command to be meant
            raise OSError(f"{_NOT_WHAT_IT_WAS}: {path}: {error.strerror}") from None
        self._descriptors.append(descriptor)
        self.words += ["--bind-fd" if is_writable else "--ro-bind-fd", str(descriptor), at]
        self._folders[at] = (*self._place(descriptor), is_writable)
        self._empty.discard(at)

    def empty(self, path: str, *, mode: str = "0755", most_bytes: int = 0) -> None:
        """Lay an empty folder in memory over what is there. `most_bytes`: 0 for half of the machine's memory."""
        self.words += ["--perms", mode, *(["--size", str(most_bytes)] if most_bytes else []), "--tmpfs", path]
        self._empty.add(path)
        self._folders.pop(path, None)

    def hide(self, path: str) -> None:
        """Lay an empty file over one."""
        self.words += ["--ro-bind", os.devnull, path]

    def input(self, content: bytes) -> int:
        """A descriptor of bubblewrap's from which that can be read; at most what a pipe holds."""
        read_end, write_end = os.pipe()
        self._descriptors.append(read_end)
        with os.fdopen(write_end, "wb") as file:
            file.write(content)
        return read_end

    def told(self) -> Tuple[int, int]:
        """A pipe: our end, and that by which bubblewrap tells of the sandbox."""
        read_end, write_end = os.pipe()
        self._descriptors.append(write_end)
        return read_end, write_end

    def end(self) -> None:
        """The list is complete: what is mounted is looked at now."""
        read_end, self._gate = os.pipe()
        self._descriptors.append(read_end)
        fcntl.fcntl(self._gate, _SET_PIPE_SIZE, 4096)
        os.set_blocking(self._gate, False)
        try:
            while True:
                os.write(
                    self._gate, bytes(4096)
                )  # full: that it is so no longer tells us that bubblewrap has come to it
        except BlockingIOError:
            pass
        self.words += ["--file", str(read_end), os.devnull]

    def close_inherited(self) -> None:
        """What bubblewrap has by now."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def close(self) -> None:
        """All. A sandbox that waits for us goes on."""
        self.close_inherited()
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def check(self, process: "subprocess.Popen[Any]", first: int) -> None:
        """Wait until all is mounted, and look at it. `first`: the sandbox's first process. Raises OSError if it is otherwise."""
        waiting = select.poll()
        waiting.register(self._gate, select.POLLOUT)
        events = waiting.poll(_MADE_SECONDS * 1000)
        if not events:
            raise OSError(f"its sandbox was not made within {_MADE_SECONDS:g} s")
        if events[0][1] & select.POLLERR:
            words = _last_words(process)
            if any(sign in words for sign in (*_CHANGED, *self._folders)):  # they were there when we opened them
                raise OSError(f"{_NOT_WHAT_IT_WAS}: it was changed while its sandbox was made ({words})")
            raise OSError(f"its sandbox cannot be made: {words}")
        wrong = next(self._wrong(first), None)
        if wrong is not None:
            raise OSError(
                f"{_NOT_WHAT_IT_WAS}: {wrong} was changed while its sandbox was made; programs put links there"
            )

    def _wrong(self, first: int) -> Iterator[str]:
        """What is not mounted where it should be."""
        with open(f"/proc/{first}/mountinfo", "rb") as file:
            mounts = [mount for _, mount in _mounts(line for line in file if _NEW_ROOT_BYTES in line)]
        folders = {(mount.point, mount.device, mount.root, mount.is_writable) for mount in mounts}
        empty = {mount.point for mount in mounts if mount.kind == "tmpfs"}
        for at, (device, root, is_writable) in self._folders.items():
            if (_NEW_ROOT + at, device, root, is_writable) not in folders:
                yield at
        yield from (at for at in self._empty if _NEW_ROOT + at not in empty)

    def _place(self, descriptor: int) -> Tuple[str, str]:
        """The device of a descriptor and its path there, as a table of mounts will have it."""
        if not self._table:
            with open("/proc/self/mountinfo", "rb") as table:
                self._table = dict(_mounts(table))
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file)
        mount = self._table.get(int(told["mnt_id"]))
        if mount is None:
            raise OSError("its sandbox cannot be made: something was mounted or unmounted meanwhile")
        below = os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), mount.point)
        return mount.device, os.path.normpath(os.path.join(mount.root, below))


def _mounts(table: Iterable[bytes]) -> Iterator[Tuple[int, _Mount]]:
    """A table of mounts, by their numbers."""
    for line in table:
        words = line.split()
        root, point = map(_unescaped, words[3:5])
        kind = words[words.index(b"-", 6) + 1]
        is_writable = b"rw" in words[5].split(b",")
        yield int(words[0]), _Mount(words[2].decode(), root, point, is_writable, kind.decode())


def _unescaped(word: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), word) if b"\\" in word else word)


def _last_words(process: "subprocess.Popen[Any]") -> str:
    """Why it has ended, as far as it has told us."""
    process.wait()
    text: Optional[Any] = process.stderr.read() if process.stderr is not None else None
    lines = (text.decode(errors="replace") if isinstance(text, bytes) else text or "").strip().splitlines()
    return lines[-1] if lines else f"bubblewrap ended with {process.returncode}"
