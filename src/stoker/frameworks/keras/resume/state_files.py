"""The files of a checkpoint of `fit`: variables, what metrics have counted, the best weights that callbacks keep, and chance."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Tuple

from stoker.frameworks.checkpointing.checkpoints import Checkpoint
from stoker.frameworks.checkpointing.parts.part import Write, another_program, packed, unpacked

numpy: Any = import_module("numpy")  # Keras has brought it
_VARIABLES = "arrays.npz"
_METRICS = "metrics.npz"
_BEST = "best.npz"
_CHANCE = "chance"


def staged(
    variables: List[Any], metrics: List[Any], best: Dict[int, List[Any]], chance: Dict[str, Any]
) -> Callable[[str], Write]:
    """What writes them into a folder, as `Part.stage` does. `best`: by the number of the callback. `chance`: empty for none."""
    weights = [numpy.array(array) for some in best.values() for array in some]
    drawn = packed(chance) if chance else b""

    def stage(draft: str) -> Write:
        def write() -> None:
            _write(os.path.join(draft, _VARIABLES), variables)
            _write(os.path.join(draft, _METRICS), metrics)
            if weights:
                _write(os.path.join(draft, _BEST), weights)
            if drawn:
                with open(os.path.join(draft, _CHANCE), "wb") as file:
                    file.write(drawn)

        return write

    return stage


def values(found: Checkpoint, shapes: List[Tuple[int, ...]], optimizers: List[str]) -> Iterator[Any]:
    """The values of the variables, one after the other. Raises Refused at once if they are of another model.

    `shapes`: of the program's variables. `optimizers`: their kinds.
    """
    names, theirs = found.state["variables"], found.state.get("optimizers", optimizers)
    if theirs != optimizers:
        raise another_program(found, f"it was trained by {', '.join(theirs)}, the program has {', '.join(optimizers)}")
    saved = [tuple(shape) for _, shape, _ in names]
    if shapes != saved:
        differing = next((n for n, (a, b) in enumerate(zip(shapes, saved)) if a != b), min(len(shapes), len(saved)))
        its = f"{names[differing][0]} {saved[differing]}" if differing < len(saved) else "nothing"
        ours = f"{shapes[differing]}" if differing < len(shapes) else "nothing"
        raise another_program(found, f"where it has {its}, the program has {ours}")
    return (array.view(_type_of(kind)) for array, (_, _, kind) in zip(_read(found, _VARIABLES), names))


def metrics(found: Checkpoint) -> List[Any]:
    """What they had counted."""
    return list(_read(found, _METRICS))


def chance(found: Checkpoint) -> Dict[str, Any]:
    """As the course of `fit` has given it; empty: it was not kept."""
    if not os.path.exists(found.path(_CHANCE)):
        return {}
    with open(found.path(_CHANCE), "rb") as file:
        kept: Dict[str, Any] = unpacked(file.read())
    return kept


def best_weights(found: Checkpoint) -> Dict[int, List[Any]]:
    """What callbacks kept, by their number: the weights of the best epoch so far."""
    counts: Dict[str, int] = found.state.get("best_weights") or {}
    arrays = _read(found, _BEST)
    return {int(number): [next(arrays) for _ in range(count)] for number, count in counts.items()}


def _write(path: str, arrays: List[Any]) -> None:
    """Kinds that numpy does not have, such as bfloat16, go as bytes."""
    plain = [a if a.dtype.kind in "biufc" else a.view(f"u{a.dtype.itemsize}") for a in arrays]
    numpy.savez(path, **{str(n): a for n, a in enumerate(plain)})


def _read(found: Checkpoint, name: str) -> Iterator[Any]:
    if os.path.exists(found.path(name)):
        with numpy.load(found.path(name), allow_pickle=False) as kept:
            for number in range(len(kept.files)):
                yield kept[str(number)]


def _type_of(name: str) -> Any:
    """numpy knows bfloat16 and its like once those are imported, which come with the frameworks that have them."""
    with suppress(ImportError):
        import_module("ml_dtypes")
    return numpy.dtype(name)
