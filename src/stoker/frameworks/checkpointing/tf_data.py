"""Datasets of TensorFlow that are entered in the middle of a pass, in the order that it had.

A dataset that shuffles draws its order when an iterator of it is made, from its seed and how many were made before: as many are
made as the attempts before have made. What comes before the place is read and passed over.
"""

from __future__ import annotations

from typing import Any, Iterator, Tuple

_DRAW_LATE = ("Repeat", "Concatenate", "DirectedInterleave", "Choose")
"""Of these, some draw an order when they are read, not when an iterator is made."""


def entered(dataset: Any, passes: int, steps: int, data: Any) -> Any:
    """An iterator that has so many passes, and steps of its own, behind it. `data`: what the dataset is made of."""
    draws_late = bool(passes) and _has(data, _DRAW_LATE)
    if passes and (draws_late or _has(data, ("Cache",))):  # the order that is in a cache is that of the first pass
        for _ in range(passes if draws_late else 1):
            for _ in dataset:
                pass
        passes = 0 if draws_late else passes - 1
    for _ in range(passes):
        iter(dataset)
    if steps <= 0:
        return iter(dataset)
    if hasattr(dataset, "skip"):
        return iter(_skipped(dataset, steps))
    found = iter(dataset)  # one that is on several devices
    for _ in range(steps):
        next(found, None)
    return found


def _skipped(dataset: Any, steps: int) -> Any:
    """What comes after so many. Of one that is repeated without end, whole passes need not be read for that."""
    after = [dataset]  # what follows the repetition and takes no notice of it
    while type(after[-1]).__name__ in ("_PrefetchDataset", "_OptionsDataset"):
        after.append(after[-1]._input_dataset)
    if type(after[-1]).__name__ != "_RepeatDataset" or int(after[-1].cardinality()) != -1:
        return dataset.skip(steps)
    once = after[-1]._input_dataset
    length = int(once.cardinality())
    if length <= 0 or _has(once, ("Cache", *_DRAW_LATE)) or _remembers(once):
        return dataset.skip(steps)
    for _ in range(steps // length):
        iter(once)
    found = once.skip(steps % length).concatenate(once.repeat())
    return (found.prefetch(-1) if len(after) > 1 else found).with_options(dataset.options())


def _has(data: Any, kinds: Tuple[str, ...]) -> bool:
    """Whether a dataset of one of these kinds is in it anywhere."""
    return any(kind in type(one).__name__ for one in _parts(data) for kind in kinds)


def _remembers(data: Any) -> bool:
    """Whether one of its functions goes on from where it was in the pass before, as random numbers do."""
    graphs = [function.function.graph for one in _parts(data) for function in one._functions()]
    return any(operation.op_def.is_stateful for graph in graphs for operation in graph.get_operations())


def _parts(data: Any) -> Iterator[Any]:
    """All datasets that it is made of."""
    ahead = [data]
    while ahead:
        one = ahead.pop()
        if hasattr(one, "_inputs"):
            yield one
            ahead.extend(one._inputs())
