"""What several processes of one `fit` share: the chief alone writes."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, List, Optional

from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.processes.cluster import Cluster
from stoker.frameworks.processes.rank_files import elsewhere, is_alone_with
from stoker.frameworks.replaced import CHIEF_SAVES, replace

_FILES = ("filepath", "filename", "log_dir", "backup_dir")  # of callbacks that write


def writing_chief(given: Any, cluster: Cluster) -> Optional[List[Any]]:
    """The callbacks of a `fit`, of which those of others than the chief write elsewhere. None: nothing can be added to them."""
    callbacks = as_list(given)
    if not cluster.is_chief:
        for callback in callbacks or ():
            _redirect(callback)
    return callbacks


def _redirect(callback: Any) -> None:
    """All take part in saving, for some values are on all of them; what others than the chief write is thrown away."""
    for name in _FILES:
        given = getattr(callback, name, None)
        if isinstance(given, (str, os.PathLike)) and not is_alone_with(given):
            path = os.fspath(given)
            setattr(callback, name, os.path.join(elsewhere(), os.path.basename(path) or "files"))


def throw_away(keras: Any) -> None:
    """From now on what a model saves here goes nowhere, unless nobody else writes there."""
    replace(CHIEF_SAVES[keras.__name__], {path: _thrown_away for path in CHIEF_SAVES[keras.__name__].names})


def _thrown_away(save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save)
    def stand_in(model: Model, filepath: Any, *args: Any, **words: Any) -> None:
        if not is_alone_with(filepath):
            filepath = os.path.join(elsewhere(), os.path.basename(os.fspath(filepath)) or "model")
        save(model, filepath, *args, **words)

    return stand_in


def as_list(callbacks: Any) -> Optional[List[Any]]:
    """Callbacks as `fit` takes them: several, one, or none. None: a CallbackList, to which nothing can be added from outside."""
    if callbacks is None or isinstance(callbacks, (list, tuple)):
        return list(callbacks or ())
    return None if hasattr(callbacks, "callbacks") else [callbacks]
