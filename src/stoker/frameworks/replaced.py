"""Every name of a framework, or of Python, that is replaced in a program's process: one table, and the one way to do it.

A `Change` is what belongs together: all of its names are replaced, or none. They are looked for before the first is touched, so a
version that is made otherwise is left whole, and the log says so. docs/frameworks.md shows the table (docs/draw_replaced.py).
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from .messages import Refused, say

Make = Callable[[Any], Any]
"""From what stands at a name, what is to stand there."""

TRIED: Dict[str, Tuple[str, ...]] = {
    "jax": ("0.10",),
    "keras": ("3.15",),
    "tensorflow": ("2.21",),
    "tf_keras": ("2.21",),
    "torch": ("2.13",),
}
"""Framework → the versions with which the live tests pass (two numbers each). `make frameworks-latest` tries newer ones."""


class Change(NamedTuple):
    """Names that are replaced together."""

    framework: str  # whose version counts; "python" for the standard library
    owner: str  # the file below frameworks/ that replaces them
    why: str
    without: str  # what becomes of a program where a version lacks one of the names
    names: Tuple[str, ...]  # each `module:attribute.attribute`
    extra: Tuple[str, ...] = ()  # which some of the tried versions lack: replaced where they are
    is_quiet: bool = False  # nothing that the program computes depends on it, so an untried version is no news
    is_needed: bool = False  # without it the program is refused


def replace(change: Change, made: Mapping[str, Make]) -> bool:
    """Replace all names of a change, or none. `made`: each name with what makes its replacement from the original.

    Returns whether it was done. Raises Refused where it was not and is needed.
    """
    found = _found(change, made)
    if found is None:
        return False
    replacements = [(holder, name, made[path](original)) for path, (holder, name, original) in found.items()]
    for holder, name, replacement in replacements:
        setattr(holder, name, replacement)
    return True


@contextmanager
def replaced_meanwhile(change: Change, made: Mapping[str, Make]) -> Iterator[Callable[[], None]]:
    """Replace names for a while. Gives what puts the originals back, for who wants to do so before the end."""
    found = _found(change, made) or {}

    def put_back() -> None:
        for holder, name, original in found.values():
            setattr(holder, name, original)

    for path, (holder, name, original) in found.items():
        setattr(holder, name, made[path](original))
    try:
        yield put_back
    finally:
        put_back()


def missing(change: Change) -> List[str]:
    """The names of a change that this version does not have."""
    return [path for path in change.names if _look_up(path) is None]


def is_public(path: str) -> bool:
    """Whether a name is one that its framework promises to keep: no part of it is marked as private."""
    parts = path.replace(":", ".").split(".")
    return "src" not in parts and not any(part.startswith("_") and not part.startswith("__") for part in parts)


def version_of(framework: str) -> str:
    """The version in this process; empty: it has none."""
    return "" if framework == "python" else str(getattr(import_module(framework), "__version__", ""))


def is_tried(framework: str) -> bool:
    """Whether the version in this process is one of those that were tried."""
    return framework not in TRIED or ".".join(version_of(framework).split(".")[:2]) in TRIED[framework]


def _found(change: Change, made: Mapping[str, Make]) -> "Dict[str, Tuple[Any, str, Any]] | None":
    """Where each name stands, its last part, and what stands there. None: it is not all there."""
    if not set(change.names) <= set(made) <= {*change.names, *change.extra}:
        raise KeyError(f"{change.owner} replaces {sorted(made)}, and its row of the table says {change.names}")
    looked_up = {path: _look_up(path) for path in made}
    lacks = [path for path in change.names if looked_up[path] is None]
    if lacks:
        what = f"{change.framework} {version_of(change.framework)} has no {', '.join(_shown(path) for path in lacks)}"
        if change.is_needed:
            raise Refused(
                f"{what}, by which {change.why}", f"install {_versions(change.framework)}, or {change.without}"
            )
        say(f"{what}: {change.without} (tried: {_versions(change.framework)})")
        return None
    if not change.is_quiet and not is_tried(change.framework) and change.framework not in _told:
        _told.add(change.framework)
        say(
            f"{change.framework} {version_of(change.framework)} was never tried here"
            f" (what was: {_versions(change.framework)}): it has every name that is replaced"
        )
    return {path: found for path, found in looked_up.items() if found is not None}


_told: "set[str]" = set()


def _look_up(path: str) -> "Tuple[Any, str, Any] | None":
    module, _, attributes = path.partition(":")
    *holders, name = attributes.split(".")
    try:
        holder: Any = import_module(module)
        for part in holders:
            holder = getattr(holder, part)
        original = getattr(holder, name)
    except (ImportError, AttributeError):
        return None
    return (holder, name, original) if callable(original) else None


def _shown(path: str) -> str:
    return path.replace(":", ".")


def _versions(framework: str) -> str:
    return " or ".join(f"{framework} {version}" for version in TRIED.get(framework, ())) or framework


# The table


def _of_model(keras: str, *names: str) -> Tuple[str, ...]:
    return tuple(f"{keras}:Model.{name}" for name in names)


FIT = {
    keras: Change(
        keras,
        "keras/fit.py",
        "`fit` is measured, goes on where it was, and trains on several devices",
        "`fit` is left as it is",
        _of_model(keras, "fit"),
    )
    for keras in ("keras", "tf_keras")
}
WHOLE_DATA = {
    keras: Change(
        keras,
        "keras/distributed_fit.py, keras/data_parallel.py",
        "all processes evaluate and predict all of the data",
        "say --distribute none",
        _of_model(keras, "evaluate", "predict"),
        is_needed=True,
    )
    for keras in ("keras", "tf_keras")
}
CHIEF_SAVES = {
    keras: Change(
        keras,
        "keras/chief_files.py",
        "the chief's files are those that are kept",
        "say --distribute none",
        _of_model(keras, "save", "save_weights", "export"),
        is_needed=True,
    )
    for keras in ("keras", "tf_keras")
}
VARIABLE_AS_NUMBER = Change(
    "keras",
    "keras/distributed_fit.py",
    "a variable that is on several devices can be read as a number",
    "int() and float() of its variables may fail",
    ("keras:Variable.__int__", "keras:Variable.__float__"),
)
AVERAGES = {
    "keras": Change(
        "keras",
        "keras/replica_average.py",
        "gradients and BatchNorm's statistics of replicas are averaged as one device would have them with the whole batch",
        "Keras averages in its own way, in which a last batch that divides unevenly counts unevenly",
        (
            "keras.src.losses.loss:scale_loss_for_distribution",
            "keras.src.losses.loss:unscale_loss_for_distribution",
            "keras.src.losses.loss:reduce_values",
            "keras.src.optimizers.base_optimizer:BaseOptimizer._clip_gradients",
            "keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer.apply",
            "keras.src.backend.tensorflow.optimizer:TFOptimizer._all_reduce_sum_gradients",
        ),
    ),
    "tf_keras": Change(
        "tf_keras",
        "keras/replica_average.py",
        "gradients of replicas are averaged as one device would have them with the whole batch",
        "tf_keras adds gradients up in its own way",
        (
            "tf_keras.src.utils.losses_utils:scale_loss_for_distribution",
            "tf_keras.src.optimizers.utils:all_reduce_sum_gradients",
            "tf_keras.src.losses:Loss._get_reduction",
        ),
    ),
}
BUILD = Change(
    "keras",
    "keras/composed_models.py",
    "models are built by what is known of their batches, where Keras would read one",
    "Keras builds models in its own way, which reads a batch",
    ("keras.src.backend.tensorflow.trainer:TensorFlowTrainer._maybe_symbolic_build",),
)
WORKERS = Change(
    "keras",
    "keras/worker_fixes.py",
    "metrics of several workers are averaged (keras issue 20585)",
    "use tf_keras (TF_USE_LEGACY_KERAS=1), or one machine with more GPUs",
    ("keras.src.backend.tensorflow.trainer:reduce_per_replica",),
    is_needed=True,
)
READERS = {
    backend: Change(
        "keras",
        "keras/data/dataset_passes.py",
        "an epoch can be entered in its middle (while one `fit` begins)",
        "an interrupted epoch of a dataset begins anew",
        (f"keras.src.backend.{backend}.trainer:{reader}",),
    )
    for backend, reader in (
        ("tensorflow", "TFEpochIterator"),
        ("jax", "JAXEpochIterator"),
        ("torch", "TorchEpochIterator"),
    )
}
TF_KERAS_READER = Change(
    "tf_keras",
    "keras/resume/on_tf_keras.py",
    "an epoch can be entered in its middle (while one `fit` begins)",
    "an interrupted epoch of a dataset begins anew",
    ("tf_keras.src.engine.data_adapter:get_data_handler",),
)
SERVED = Change(
    "tf_keras",
    "keras/parameter_servers.py",
    "scripts for one device train with parameter servers",
    "say --distribute none",
    _of_model("tf_keras", "compile", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"),
    is_needed=True,
)
TIMED_DATA = Change(
    "tensorflow",
    "keras/fit_steps.py",
    "how long a step waits for its data is measured",
    "waiting for data is not measured",
    ("tensorflow:data.Dataset.__iter__",),
    is_quiet=True,
)
BEGUN = Change(
    "tensorflow",
    "keras/prepare.py",
    "what would set up devices anew is skipped, once TensorFlow has begun with its workers",
    "a program that sets up devices fails",
    (
        "tensorflow:config.set_visible_devices",
        "tensorflow:config.set_logical_device_configuration",
        "tensorflow:config.experimental.set_memory_growth",
        "tensorflow:config.experimental.set_virtual_device_configuration",
        "tensorflow:config.experimental.set_visible_devices",
        "tensorflow:config.threading.set_intra_op_parallelism_threads",
        "tensorflow:config.threading.set_inter_op_parallelism_threads",
    ),
)
TORCH_AVERAGE = Change(
    "torch",
    "torch/gradient_average.py",
    "the gradients of all processes are averaged before they are clipped, scaled, and stepped",
    "say --distribute none",
    (
        "torch.distributed:init_process_group",
        "torch.optim:Optimizer.add_param_group",
        "torch.optim.lr_scheduler:ReduceLROnPlateau.step",
        "torch.nn.utils.clip_grad:clip_grad_norm_",
        "torch.nn.utils.clip_grad:clip_grad_value_",
        "torch.nn.utils:clip_grad_norm_",
        "torch.nn.utils:clip_grad_value_",
        "torch.amp:GradScaler.unscale_",
        "torch.amp:GradScaler.step",
        "torch:Tensor.backward",
        "torch.nn.parallel:DistributedDataParallel.__init__",
    ),
    is_needed=True,
)
TORCH_DATA = Change(
    "torch",
    "torch/data_shares.py",
    "each process trains on its share of the data, and evaluates all",
    "say --distribute none",
    ("torch.utils.data:DataLoader.__init__", "torch.utils.data:DataLoader.__iter__", "torch.nn:Module.train"),
    is_needed=True,
)
TORCH_STEPS = Change(
    "torch",
    "torch/optimizer_steps.py",
    "steps, their data, and the loss are measured",
    "steps are not measured",
    (
        "torch.utils.data.dataloader:_BaseDataLoaderIter.__next__",
        "torch.utils.data.dataloader:DataLoader.__iter__",
        "torch:Tensor.backward",
    ),
    extra=("torch.amp:GradScaler.scale",),  # of PyTorch 2.3 and newer
    is_quiet=True,
)
TORCH_FILES = Change(
    "torch",
    "processes/rank_files.py",
    "the chief's files are those that are kept",
    "say --distribute none",
    ("torch:save", "torch:load"),
    is_needed=True,
)
RANK_FILES = Change(
    "python",
    "processes/rank_files.py",
    "a process finds what it has saved elsewhere (from its first such file on, in others than the chief)",
    "say --distribute none",
    (
        "builtins:open",
        "io:open",
        "os:access",
        "os:link",
        "os:remove",
        "os:rename",
        "os:replace",
        "os:stat",
        "os:symlink",
        "os:unlink",
        "shutil:copy",
        "shutil:copy2",
        "shutil:copyfile",
        "shutil:move",
    ),
)
EXCEPTHOOK = Change(
    "python",
    "torch/gpu_processes.py",
    "a program that fails ends its other processes on the machine",
    "they are ended by their supervisor",
    ("sys:excepthook",),
)

CHANGES: Tuple[Change, ...] = (
    *FIT.values(),
    *WHOLE_DATA.values(),
    *CHIEF_SAVES.values(),
    VARIABLE_AS_NUMBER,
    *AVERAGES.values(),
    BUILD,
    WORKERS,
    *READERS.values(),
    TF_KERAS_READER,
    SERVED,
    TIMED_DATA,
    BEGUN,
    TORCH_AVERAGE,
    TORCH_DATA,
    TORCH_STEPS,
    TORCH_FILES,
    RANK_FILES,
    EXCEPTHOOK,
)
