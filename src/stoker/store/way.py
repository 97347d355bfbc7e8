"""The way from an open folder down to a name, step by step: see root.py for why."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence

from stoker.core.errors import BadSpec, Violation
from stoker.runtime.no_links import make_folder_at
from stoker.runtime.umask import opened

from .names import steps_of

_WRITE = 0o2
GO_THROUGH = 0o1
"""The bit of a folder's mode that a step needs."""

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_MOST_LINKS = 40  # as Linux follows (path_resolution(7))
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)  # what a step says that meets a link, or a file


class Way:
    """The way down to a name: the folders that are open, and the steps that are left."""

    def __init__(
        self,
        name: str,
        top: int,
        paths: Sequence[str],
        make: bool,
        check: Callable[[os.stat_result, int], None],
        user: int | None = None,
    ) -> None:
        """`top`: the root, open, to be closed here. `paths`: those of the root, by which absolute links lead there.

        `check`: raises OSError for a folder that we may not go through. `user`: whose folders are that are made.
        """
        self._folders = [top]
        self._name, self._paths, self._make, self._check, self._user = name, paths, make, check, user
        self._links = 0
        self.parts = deque(steps_of(name))

    @property
    def here(self) -> int:
        """The descriptor of the lowest folder."""
        return self._folders[-1]

    def go(self, *, leaving: int) -> None:
        """Take steps until so many are left. Raises OSError, or BadSpec if a link leads out."""
        while len(self.parts) > leaving or (self.parts and self.parts[0] == ".."):
            part = self.parts[0]
            if part == "..":  # a link's
                self.parts.popleft()
                self._up()
            elif not self._down(part):
                self.follow(part, must=True)

    def follow(self, part: str, *, must: bool = False) -> bool:
        """If the next step is a link, take what it says in its place. Returns whether it is. `must`: raise if it is none."""
        try:
            target = os.readlink(part, dir_fd=self.here)
        except OSError:
            if must:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
            return False
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            target = self._below_top(target)
            while len(self._folders) > 1:
                self._up()
        self.parts.popleft()
        self.parts.extendleft(reversed([word for word in target.split("/") if word not in ("", ".")]))
        return True

    def close(self) -> None:
        """Let go of the folders."""
        for descriptor in self._folders:
            os.close(descriptor)

    def _down(self, part: str) -> bool:
        """Open the next folder. Returns whether there is one; else it is a link, or a file."""
        self._check(os.fstat(self.here), GO_THROUGH)
        try:
            self._folders.append(self._opened(part))
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return False
            raise
        self.parts.popleft()
        return True

    def _opened(self, part: str) -> int:
        try:
            return os.open(part, _STEP, dir_fd=self.here)
        except FileNotFoundError:
            if not self._make:
                raise
        self._check(os.fstat(self.here), _WRITE)
        made = make_folder_at(part, opened(0o777), self.here)
        if self._user is not None:
            os.chown(part, self._user, self._user, dir_fd=self.here, follow_symlinks=False)
        return made

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise _leads_out(self._name)
        os.close(self._folders.pop())

    def _below_top(self, target: str) -> str:
        """What an absolute link says, from the root on. Raises BadSpec if that is not below it."""
        for top in self._paths:
            if top == "/" or target == top or target.startswith(top + "/"):
                return target[len(top) :]
        raise _leads_out(self._name)


def _leads_out(name: str) -> BadSpec:
    return BadSpec([Violation("name", f"{name!r} leads out of its bucket through a link")])
