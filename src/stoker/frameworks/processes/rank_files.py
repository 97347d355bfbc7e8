"""What others than the chief save: in a folder that all share it goes elsewhere, so that the chief's file is what is kept.

In the working directory of its replica, where nobody else writes, a file stays where the program has put it.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import threading
from importlib import import_module
from typing import Any, Callable, Dict

from stoker.beat_files import folder_of
from stoker.frameworks.replaced import RANK_FILES, TORCH_FILES, replace


@functools.lru_cache(maxsize=None)
def elsewhere() -> str:
    """A folder of this process alone, which goes with it."""
    folder = tempfile.mkdtemp(prefix="stoker-not-the-chief-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_alone_with(path: "str | os.PathLike[str]") -> bool:
    """Whether nobody else writes there: it lies in the working directory of a replica, and this is its first process."""
    folder = folder_of(os.environ)
    if not folder or os.environ.get("STOKER_LOCAL_PROCESS"):
        return False
    work = os.path.join(os.path.dirname(folder), "work")
    return os.path.realpath(os.fspath(path)).startswith(os.path.realpath(work) + os.sep)


class Saved:
    """The files that this process has saved elsewhere. The program finds them where it thinks that they are."""

    def __init__(self) -> None:
        self._places: Dict[str, str] = {}  # path → where it really is
        self._count = 0
        self._lock = threading.RLock()

    def place(self, path: Any) -> str:
        """Where a file that is to be saved goes."""
        path = os.path.abspath(os.fspath(path))
        with self._lock:
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
        acts: "tuple[tuple[Callable[..., Any], tuple[str, ...], str], ...]" = (
            (self._found, ("path",), "os:stat os:access"),
            (self._found, ("file",), "builtins:open io:open"),
            (self._removed, ("path",), "os:remove os:unlink"),
            (self._moved, ("src", "dst"), "os:rename os:replace shutil:move"),
            (self._copied, ("src", "dst"), "shutil:copyfile shutil:copy shutil:copy2 os:link os:symlink"),
        )
        made = {path: _stands_in(path, act, names) for act, names, paths in acts for path in paths.split()}
        replace(RANK_FILES, made)

    def _found(self, function: Callable[..., Any], path: Any, *rest: Any, **words: Any) -> Any:
        return function(self.where(path), *rest, **words)

    def _removed(self, function: Callable[..., Any], path: Any, *rest: Any, **words: Any) -> Any:
        place = self.where(path)
        if place is not path:
            self._places.pop(os.path.abspath(os.fspath(path)), None)
        return function(place, *rest, **words)

    def _moved(self, function: Callable[..., Any], source: Any, target: Any, *rest: Any, **words: Any) -> Any:
        if self.where(source) is source:
            return function(source, target, *rest, **words)
        with self._lock:
            target = _within(target, source)
            before = self._places.pop(target, None)
            self._places[target] = self._places.pop(os.path.abspath(os.fspath(source)))
        if before is not None:
            os.remove(before)
        return target

    def _copied(self, function: Callable[..., Any], source: Any, target: Any, *rest: Any, **words: Any) -> Any:
        if self.where(source) is source:
            return function(source, target, *rest, **words)
        shutil.copyfile(self.where(source), self.place(_within(target, source)))
        return target


class _StandIn:
    """Stands for a function of the standard library that takes paths. No function itself: classes keep one as `opener`."""

    def __init__(
        self, function: Callable[..., Any], module: Any, name: str, act: Callable[..., Any], names: "tuple[str, ...]"
    ) -> None:
        """`act` is called with the function, and with what it was called with. `names`: of its first parameters."""
        functools.update_wrapper(self, function)
        self._function, self._act, self._names = function, act, names
        self._place = module, name

    def __call__(self, *args: Any, **words: Any) -> Any:
        is_within_a_folder = any(words.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"))
        try:
            given = [*args, *(words[name] for name in self._names[len(args) :])]
        except KeyError:
            is_within_a_folder = True  # it was called in a wrong way, and says so best itself
        if is_within_a_folder:
            return self._function(*args, **words)
        return self._act(self._function, *given, **{n: v for n, v in words.items() if n not in self._names})

    def __reduce__(self) -> Any:
        return getattr, self._place


def _stands_in(path: str, act: Callable[..., Any], names: "tuple[str, ...]") -> Callable[[Any], _StandIn]:
    module, _, name = path.partition(":")
    return lambda function: _StandIn(function, import_module(module), name, act, names)


def _within(target: Any, source: Any) -> str:
    """Where something is copied or moved to: into a folder, or to that name."""
    path: str = os.path.abspath(os.fspath(target))
    return os.path.join(path, os.path.basename(os.fspath(source))) if os.path.isdir(path) else path


def save_elsewhere() -> None:
    """What others than the chief save by PyTorch where all can see it, they alone read again; it goes with the process."""
    saved = Saved()

    def saves(save: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(save)
        def save_there(obj: Any, f: Any, *args: Any, **words: Any) -> None:
            if isinstance(f, (str, os.PathLike)) and not is_alone_with(f):
                f = saved.place(f)
            save(obj, f, *args, **words)

        return save_there

    def loads(load: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(load)
        def load_from_there(f: Any, *args: Any, **words: Any) -> Any:
            return load(saved.where(f), *args, **words)

        return load_from_there

    replace(TORCH_FILES, {"torch:save": saves, "torch:load": loads})
