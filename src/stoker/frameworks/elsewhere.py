"""What others than the chief save: in a folder that all share it goes elsewhere, so that the chief's file is what is kept.

In the working directory of its replica, where nobody else writes, a file stays where the program has put it.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import io
import os
import shutil
import tempfile
from typing import Any, Callable, Dict


@functools.lru_cache(maxsize=None)
def elsewhere() -> str:
    """A folder of this process alone, which goes with it."""
    folder = tempfile.mkdtemp(prefix="stoker-not-the-chief-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_alone_with(path: "str | os.PathLike[str]") -> bool:
    """Whether nobody else writes there: it lies in the working directory of a replica, and this is its first process."""
    beat_file = os.environ.get("STOKER_BEAT_FILE")
    if not beat_file or os.environ.get("STOKER_LOCAL_PROCESS"):
        return False
    work = os.path.join(os.path.dirname(os.path.dirname(beat_file)), "work")
    return os.path.realpath(os.fspath(path)).startswith(os.path.realpath(work) + os.sep)


class Saved:
    """The files that this process has saved elsewhere. The program finds them where it thinks that they are."""

    def __init__(self) -> None:
        self._places: Dict[str, str] = {}  # path → where it really is
        self._count = 0

    def place(self, path: Any) -> str:
        """Where a file that is to be saved goes."""
        path = os.path.abspath(os.fspath(path))
        if not self._count:
            self._put_in_place()
        if path not in self._places:
            self._count += 1
            self._places[path] = os.path.join(elsewhere(), f"{self._count}-{os.path.basename(path)}")
        return self._places[path]

    def where(self, path: Any) -> Any:
        """Where a file really is."""
        if not self._places or not isinstance(path, (str, os.PathLike)):
            return path
        return self._places.get(os.path.abspath(os.fspath(path)), path)

    def _put_in_place(self) -> None:
        """What a program does with a file that it has saved: it looks at it, reads, renames, copies and removes it."""
        for module, name in ((os, "stat"), (builtins, "open"), (io, "open")):
            setattr(module, name, self._found(getattr(module, name)))
        for name in ("rename", "replace"):
            setattr(os, name, self._moved(getattr(os, name)))
        for name in ("remove", "unlink"):
            setattr(os, name, self._removed(getattr(os, name)))
        shutil.move = self._moved(shutil.move)
        for name in ("copyfile", "copy", "copy2"):
            setattr(shutil, name, self._copied(getattr(shutil, name)))

    def _found(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def stand_in(*args: Any, **words: Any) -> Any:
            return function(self.where(args[0]), *args[1:], **words) if args else function(**words)

        return stand_in

    def _moved(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def stand_in(*args: Any, **words: Any) -> Any:
            source, target = _both(args, words)
            if self.where(source) is source:
                return function(*args, **words)
            self._places[_within(target, source)] = self._places.pop(os.path.abspath(os.fspath(source)))
            return target

        return stand_in

    def _removed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def stand_in(*args: Any, **words: Any) -> Any:
            place = self.where(args[0]) if args else None
            if not args or place is args[0]:
                return function(*args, **words)
            del self._places[os.path.abspath(os.fspath(args[0]))]
            return function(place, *args[1:], **words)

        return stand_in

    def _copied(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def stand_in(*args: Any, **words: Any) -> Any:
            source, target = _both(args, words)
            if self.where(source) is source:
                return function(*args, **words)
            function(self.where(source), self.place(_within(target, source)))
            return target

        return stand_in


def _both(args: "tuple[Any, ...]", words: Dict[str, Any]) -> "tuple[Any, Any]":
    """From where to where, however it was said."""
    source = args[0] if args else words.get("src")
    return source, args[1] if len(args) > 1 else words.get("dst")


def _within(target: Any, source: Any) -> str:
    """Where something is copied or moved to: into a folder, or to that name."""
    path: str = os.path.abspath(os.fspath(target))
    return os.path.join(path, os.path.basename(os.fspath(source))) if os.path.isdir(path) else path
