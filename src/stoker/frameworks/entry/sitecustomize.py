# mypy: ignore-errors
"""Python runs this when it starts, since it lies first on the program's PYTHONPATH: frameworks that are imported are adapted.

Nothing here may fail, or cost a program that imports none anything. A `sitecustomize` of the environment's own comes afterwards.
"""

import os
import sys

_HERE = __file__.replace("\\", "/").rpartition("/")[0]
_ARCHIVE = _HERE.rpartition("/")[0]


_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "torch", "jax")
"""Those that hooks.py has adapters for. Nothing of ours is imported before one of them is: Python starts as quickly as ever."""


class _Watcher(object):
    """Lets hooks.py find the frameworks."""

    def __init__(self):
        try:
            self.folder = os.getcwd()
        except OSError:
            self.folder = ""

    def find_spec(self, name, path=None, target=None):
        """The spec of a framework, whose adapter will be called; None for everything else."""
        if name not in _FRAMEWORKS:
            return None
        try:
            from stoker.frameworks.entry.hooks import find
        except Exception as error:
            _say(error)
            return None
        return find(self, name, path, target)


class _Finder(object):
    """Finds what programs use of Stoker in the archive of the runtime; `stoker` itself only where it is not installed."""

    def __init__(self, name, folder):
        self._name, self._folder = name, folder

    def find_spec(self, name, path=None, target=None):
        """The spec of the one module that this is for."""
        if name != self._name:
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [self._folder])


def _install():
    sys.path[:] = [path for path in sys.path if path != _HERE]
    if any(type(finder).__name__ == "_Watcher" for finder in sys.meta_path):
        return
    for name in ("stoker.frameworks", "stoker.checkpoint", "stoker.beat_files"):
        sys.meta_path.insert(0, _Finder(name, _ARCHIVE + "/stoker"))
    sys.meta_path.insert(0, _Watcher())
    sys.meta_path.append(_Finder("stoker", _ARCHIVE))


def _say(error):
    sys.stderr.write("stoker: the program's frameworks are not adapted: %r\n" % (error,))


def _next():
    """The `sitecustomize` that would have been found without this one."""
    own = sys.modules.pop(__name__, None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        pass
    if own is not None:
        sys.modules.setdefault(__name__, own)


if sys.version_info >= (3, 9):
    try:
        _install()
    except Exception as error:
        _say(error)
    _next()
