"""`Model.fit`, which has one stand-in however many have something to do around it: each is a stage, and stages have an order."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, List

from stoker.frameworks.keras.protocols import Model
from stoker.frameworks.replaced import FIT, replace

STAGES = ("serve", "distribute", "resume", "measure")
"""From the outermost to the innermost: what is resumed is what a process trains on when data are shared out, and what is measured
is what trains in the end."""


class Call:
    """One call of `fit`, on its way through the stages, which change what is `asked`."""

    def __init__(self, model: Model, bound: inspect.BoundArguments) -> None:
        self.model = model
        self.bound = bound
        self.data: Any = bound.arguments.get("x")  # as the program gives them

    @property
    def asked(self) -> Dict[str, Any]:
        """The arguments, by name."""
        return self.bound.arguments


Stage = Callable[[Call, Callable[[], Any]], Any]
"""Does its part around the stages within it, which the second argument calls. Returns what `fit` returns."""

_stages: Dict[str, Dict[str, Stage]] = {}  # Keras' module → those that are in place


def surround_fit(keras: Any, name: str, stage: Stage) -> None:
    """Have every `fit` from now on go through a stage, one of `STAGES`. Raises ValueError for others, and for a second one."""
    stages = _stages.setdefault(keras.__name__, {})
    if name not in STAGES or name in stages:
        raise ValueError(f"{name} is no stage of fit, or there is one already")
    stages[name] = stage
    if len(stages) == 1:
        path = f"{keras.__name__}:Model.fit"
        replace(FIT[keras.__name__], {path: lambda fit: _stand_in(fit, stages)})


def _stand_in(fit: Callable[..., Any], stages: Dict[str, Stage]) -> Callable[..., Any]:
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def stand_in(model: Model, *args: Any, **words: Any) -> Any:
        try:
            bound = signature.bind(model, *args, **words)
        except TypeError:  # Keras says better what is wrong with it
            return fit(model, *args, **words)
        within = [stages[name] for name in STAGES if name in stages]
        return _go_through(Call(model, bound), within, fit)

    return stand_in


def _go_through(call: Call, stages: List[Stage], fit: Callable[..., Any]) -> Any:
    if not stages:
        return fit(*call.bound.args, **call.bound.kwargs)
    first, *within = stages
    return first(call, lambda: _go_through(call, within, fit))
