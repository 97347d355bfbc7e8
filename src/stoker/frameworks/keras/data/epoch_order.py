"""In which order `fit` goes through its examples, so that an epoch can be entered in its middle."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, NamedTuple

from stoker.frameworks.messages import say

numpy: Any = import_module("numpy")  # Keras has brought it


class Place(NamedTuple):
    """Where training stands."""

    epoch: int
    done: int  # of this epoch: examples, or steps where data are read from their beginning


class Reached(NamedTuple):
    """How far into data that are read from their beginning."""

    passes: int  # that are over
    steps: int  # of the one that goes on


class Read(NamedTuple):
    """What one call of `fit` has read of a dataset."""

    made: int  # iterators, each of which draws an order
    steps: int  # of the last


class Course:
    """The way of one call of `fit` through its data, entered in the middle of an epoch if need be. It hears what `fit` does."""

    count: float = 0  # places of an epoch
    batch = 1  # of which a step takes so many
    reached = Reached(0, 0)
    made = 0  # iterators of the data, by all attempts: each draws an order
    found_steps = 0  # of an epoch, if that was found out by reading

    def begin(self) -> None:
        """The model is built, and training begins."""

    def begin_epoch(self) -> None:
        """Keras is about to read for it."""

    def begin_batch(self) -> None:
        """Keras reads now."""

    def end_batch(self, batches: int) -> None:
        """So many of this epoch are done, in this attempt."""

    def end_epoch(self) -> None:
        """End the epoch: its steps are over."""

    def stand_in(self) -> ContextManager[None]:
        """Within it `fit` takes this course."""
        return nullcontext()

    def chance(self) -> Dict[str, Any]:
        """What is to be kept of the chance that its data are drawn by; empty: nothing."""
        return {}


def as_tensors(keras: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches for PyTorch, without a loader of its own around them, which would draw a random number each time."""
    nest: Any = import_module("keras.src.tree")  # leaves out what is None
    for batch in batches:
        yield nest.map_structure(keras.ops.convert_to_tensor, batch, none_is_leaf=False)


class Order(Course):
    """Drawn for each epoch, from a seed."""

    def __init__(
        self, seed: "tuple[int, int]", count: int, batch: int, shuffles: bool, place: Callable[[], Place]
    ) -> None:
        """`seed`: of the program, and of this call of `fit`. `count`: of the examples. `place`: where training stands now."""
        if shuffles:
            say(
                "fit shuffles in an order of the job's seed: the same whether it is interrupted or not, and another than without"
            )
        self._seed = seed
        self._shuffles = shuffles
        self._place = place
        self.count = count
        self.batch = batch  # examples of all replicas in a step

    def indices(self) -> Any:
        """Of the epoch that begins now, what is left of it."""
        epoch, done = self._place()
        order = numpy.arange(self.count)
        if self._shuffles:
            order = numpy.random.default_rng([*self._seed, epoch]).permutation(self.count)
        return order[done:]


def is_arrays(asked: Dict[str, Any], nest: Any) -> bool:
    """Whether `fit` is given examples that can be taken in any order."""
    parts = nest.flatten(asked["x"])
    return not asked.get("steps_per_epoch") and all(len(getattr(part, "shape", ())) for part in parts)


def put_in_order(
    asked: Dict[str, Any], batch: int, call: int, place: Callable[[], Place], keras: Any, tensorflow: Any, seed: int
) -> Order:
    """Replace the arrays that `fit` is given by a dataset that goes through them in an order of ours."""
    if asked.get("validation_split") and asked.get("validation_data") is None:
        _split(asked, tensorflow)
    if asked.get("class_weight") is not None:
        _weigh(asked)
    names = [name for name in ("x", "y", "sample_weight") if asked.get(name) is not None]
    parts = tuple(_as_tuples(asked[name]) for name in names)

    def tensor(part: Any) -> Any:
        """As Keras takes it: double precision is for nobody."""
        found = tensorflow.convert_to_tensor(part)
        return tensorflow.cast(found, keras.backend.floatx()) if found.dtype == "float64" else found

    count = len(tensorflow.nest.flatten(parts)[0])
    order = Order((abs(seed), call), count, batch, bool(asked.get("shuffle", True)), place)
    tensors = tensorflow.nest.map_structure(tensor, parts)
    indices = tensorflow.data.Dataset.from_tensors(0).flat_map(
        lambda _: tensorflow.data.Dataset.from_tensor_slices(
            tensorflow.ensure_shape(tensorflow.numpy_function(order.indices, [], tensorflow.int64), [None])
        )
    )
    batches = indices.batch(batch).map(
        lambda some: tensorflow.nest.map_structure(lambda whole: tensorflow.gather(whole, some), tensors)
    )
    options = tensorflow.data.Options()
    options.experimental_distribute.auto_shard_policy = tensorflow.data.experimental.AutoShardPolicy.DATA
    asked["x"] = batches.prefetch(tensorflow.data.AUTOTUNE).with_options(options)
    of_an_epoch = tensorflow.constant(-(-count // batch), tensorflow.int64)
    asked["x"].cardinality = lambda: of_an_epoch  # the interrupted one has fewer
    warnings.filterwarnings("ignore", message="Your input ran out of data")
    for name in ("y", "sample_weight", "batch_size"):
        asked.pop(name, None)
    asked["shuffle"] = False
    if asked.get("validation_data") is not None:
        asked.setdefault("validation_batch_size", batch)
    return order


def _split(asked: Dict[str, Any], tensorflow: Any) -> None:
    """What Keras does with `validation_split`: the last part of the examples is for validation."""
    names = [name for name in ("x", "y", "sample_weight") if asked.get(name) is not None]
    count = len(tensorflow.nest.flatten(asked["x"])[0])
    cut = int(count * (1.0 - asked.pop("validation_split")))
    wholes = {name: asked[name] for name in names}
    for name in names:
        asked[name] = tensorflow.nest.map_structure(lambda part: part[:cut], wholes[name])
    asked["validation_data"] = tuple(
        tensorflow.nest.map_structure(lambda part: part[cut:], wholes[name]) for name in names
    )


def _as_tuples(part: Any) -> Any:
    """Several inputs are several: a dataset would take a list of them for one."""
    return tuple(map(_as_tuples, part)) if isinstance(part, (list, tuple)) else part


def _weigh(asked: Dict[str, Any]) -> None:
    """Weights of classes as weights of examples, as Keras makes them batch by batch."""
    labels = numpy.asarray(asked["y"])
    kinds = labels.argmax(axis=-1) if labels.ndim > 1 and labels.shape[-1] > 1 else labels.reshape(len(labels))
    by_class = asked.pop("class_weight")
    weights = numpy.asarray([by_class.get(int(kind), 1.0) for kind in kinds], dtype="float32")
    asked["sample_weight"] = weights if asked.get("sample_weight") is None else weights * asked["sample_weight"]
