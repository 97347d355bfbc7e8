"""Datasets of TensorFlow that are entered in the middle of a pass, in the order that it had.

A dataset that shuffles draws its order when an iterator of it is made, from its seed and how many were made before: as many are
made as the attempts before have made. What comes before the place is read and passed over.
"""

from __future__ import annotations

from typing import Any


def entered(dataset: Any, passes: int, steps: int, has_cache: bool) -> Any:
    """An iterator that has so many passes, and steps of its own, behind it. `has_cache`: there is one in the dataset."""
    if passes and has_cache:
        for _ in dataset:  # the order that is in a cache is that of the first pass
            pass
        passes -= 1
    for _ in range(passes):
        iter(dataset)
    if not steps:
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
    if length <= 0 or is_cached(once):
        return dataset.skip(steps)
    for _ in range(steps // length):
        iter(once)
    found = once.skip(steps % length).concatenate(once.repeat())
    return (found.prefetch(-1) if len(after) > 1 else found).with_options(dataset.options())


def is_cached(data: Any) -> bool:
    """Whether there is a cache in it anywhere."""
    ahead = [data]
    while ahead:
        one = ahead.pop()
        if "Cache" in type(one).__name__:
            return True
        ahead.extend(one._inputs() if hasattr(one, "_inputs") else ())
    return False
