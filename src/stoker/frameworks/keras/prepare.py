"""Keras on TensorFlow: a strategy before the first variable, larger batches for `fit`, and the first step looked into."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

from stoker.frameworks import verification
from stoker.frameworks.checkpointing.interval import Rhythm
from stoker.frameworks.entry.program_source import first_use, imports, main_file, saves_itself
from stoker.frameworks.messages import Refused, say
from stoker.frameworks.processes.choice import choose_jax, choose_keras
from stoker.frameworks.processes.cluster import Cluster, cluster_of
from stoker.frameworks.processes.seeding import begin_alike
from stoker.frameworks.replaced import BEGUN, replace

if TYPE_CHECKING:
    from stoker.frameworks.keras.resume.resumed_fit import Resume  # brings numpy

_STRATEGIES = frozenset(
    "MirroredStrategy MultiWorkerMirroredStrategy ParameterServerStrategy CentralStorageStrategy OneDeviceStrategy "
    "TPUStrategy experimental_set_strategy".split()
)
_KERAS = frozenset("keras tf_keras keras_hub keras_cv keras_nlp keras_tuner autokeras".split())
"""What a program imports that trains by Keras."""

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16", "fp32": "float32"}


def prepare_tensorflow(tensorflow: ModuleType) -> None:
    """Workers have to find each other before the first operation: where the program will use Keras, it comes now."""
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if asked() and backend == "tensorflow" and first_use({"keras"}, main_file()) is not None:
        import_module("tf_keras" if _is_legacy() else "keras")
    elif backend != "tensorflow" and os.environ.get("STOKER_CHECKPOINTS"):
        tensorflow.random.set_seed(cluster_of(os.environ).seed)  # its datasets shuffle as in the attempt before


def _is_legacy() -> bool:
    """Whether the program uses tf_keras. The other may be imported by somebody else, or be named and not used."""
    if "tf_keras" not in sys.modules and find_spec("tf_keras") is None:
        return False
    named = first_use({"import keras", "import tf_keras"}, main_file())
    if named is None:
        return os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    if imports("keras") and imports("tf_keras") and ("keras" in sys.modules or "tf_keras" in sys.modules):
        return "tf_keras" in sys.modules  # it has decided
    return named.name == "import tf_keras"


def prepare_keras(keras: ModuleType) -> None:
    """Keras 3, on whichever backend."""
    if _is_of_a_library():
        return
    if not hasattr(keras, "config"):
        if asked() or os.environ.get("STOKER_CHECKPOINTS") or os.environ.get("STOKER_PRECISION"):
            raise Refused(
                f"Keras {getattr(keras, '__version__', '2')} is neither distributed nor saved without a change to the program",
                "install keras>=3, or tf_keras, in the job's environment; or leave out --distribute, --checkpoints, --precision",
            )
        return
    _set_precision(keras.config.set_dtype_policy)
    backend = keras.config.backend()
    if backend == "tensorflow":
        if not _is_legacy():
            _distribute(keras, is_legacy=False)
    elif backend in ("jax", "torch"):
        _prepare_backend(keras, backend)
    elif asked() or os.environ.get("STOKER_CHECKPOINTS"):
        raise Refused(
            f"Keras on {backend} is neither distributed nor saved without a change to the program",
            "use Keras on TensorFlow, JAX or PyTorch (KERAS_BACKEND), or leave out --distribute and --checkpoints",
        )


def _prepare_backend(keras: ModuleType, backend: str) -> None:
    """JAX or PyTorch."""
    if backend == "torch" and asked() and cluster_of(os.environ).replicas > 1:
        raise Refused(
            f"Keras on {backend} is not distributed without a change to the program",
            "use Keras on TensorFlow or JAX (KERAS_BACKEND), or --distribute none",
        )
    folder = _checkpoint_folder()
    if folder:
        from stoker.frameworks.keras.resume.on_jax_and_torch import BackendResume

        BackendResume(keras, cluster_of(os.environ), folder, Rhythm(os.environ)).put_in_place()
    if backend == "jax" and asked():
        _distribute_jax(keras)


def _is_of_a_library() -> bool:
    """Whether a library imports Keras, for a program that trains by another framework: TensorBoard does so for PyTorch."""
    file = main_file()
    if not file or first_use(_KERAS, file) is not None or first_use({"torch", "jax"}, file) is None:
        return False
    if asked() or os.environ.get("STOKER_CHECKPOINTS"):
        say("Keras is left alone: a library has imported it, and the program uses another framework")
    return True


def _check_trains_by_fit(cluster: Cluster) -> None:
    """Raise Refused for a loop of the program's own: it would be that of each process, or fail within TensorFlow."""
    if first_use({"fit"}, main_file()) is not None:
        return
    own = first_use({"GradientTape", "train_on_batch"}, main_file())
    if own is not None and cluster.replicas > 1:
        raise Refused(
            f"a training loop of the program's own ({own}) is not distributed without a change",
            "train by fit (with a train_step, if the steps are special), make a tf.distribute strategy in the program, "
            "or say --distribute none",
        )


def _distribute_jax(keras: ModuleType) -> None:
    from .data_parallel import OWN, begin

    cluster = cluster_of(os.environ)
    own = first_use(OWN, main_file())
    if own is not None:
        verification.left(f"the program distributes itself ({own})")
        return
    choose_jax(asked(), cluster)
    if cluster.rank >= 0 and cluster.replicas > 1:
        begin(keras, cluster)


def prepare_tf_keras(keras: ModuleType) -> None:
    """The legacy Keras 2."""
    _set_precision(keras.mixed_precision.set_global_policy)
    if not _is_legacy():
        return
    _distribute(keras, is_legacy=True)


def _set_precision(set_policy: Callable[[str], None]) -> None:
    precision = os.environ.get("STOKER_PRECISION", "")
    if precision:
        set_policy(_POLICIES[precision])
        say(f"precision {precision}: Keras' policy is {_POLICIES[precision]}")


def asked() -> str:
    """What `--distribute` says; empty for none."""
    found = os.environ.get("STOKER_DISTRIBUTE", "")
    return "" if found == "none" else found


def _distribute(keras: ModuleType, *, is_legacy: bool) -> None:
    if not asked() and (saves_itself() or not os.environ.get("STOKER_CHECKPOINTS")):
        return
    from .distributed_fit import Fit

    cluster = cluster_of(os.environ)
    own = first_use(_STRATEGIES, main_file())
    is_served = own is not None and cluster.servers > 0  # by a loop of its own, which any Keras may have
    way = "none" if is_served else choose_keras(asked() or "none", cluster, is_legacy=is_legacy)
    tensorflow = sys.modules["tensorflow"]
    resume = _resume(keras, tensorflow, cluster, is_legacy=is_legacy)
    if own is not None and (way != "none" or (is_served and asked())):
        verification.left(f"the program makes its own strategy ({own})")
    if way == "none" or own is not None:
        if resume is not None:
            if own is None:
                _begin_alike(tensorflow, cluster)
            resume.put_in_place()
        return
    _check_trains_by_fit(cluster)
    if way == "ps":
        if resume is not None:
            raise Refused(
                "--checkpoints is not for parameter servers, where each worker has a place of its own in the data",
                "leave it out, and save by callbacks of the program's own",
            )
        _serve(keras, tensorflow, cluster)
        return
    _begin_alike(tensorflow, cluster)
    if first_use({"set_memory_growth"}, main_file()) is not None:  # which will be skipped
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if way == "mirrored" and not is_legacy:
        from .composed_models import mend_build

        mend_build(keras, tensorflow)
    strategy = (
        _mirrored(tensorflow, cluster) if way == "mirrored" else _multiworker(tensorflow, keras, cluster, is_legacy)
    )
    tensorflow.distribute.experimental_set_strategy(strategy)
    _keep_the_context()
    expected = cluster.processes if cluster.is_pretended and way == "multiworker" else cluster.replicas
    if resume is not None:
        resume.put_in_place()
    Fit(keras, tensorflow, cluster, strategy=strategy, expected=expected).put_in_place()


def _begin_alike(tensorflow: Any, cluster: Cluster) -> None:
    """All processes, and all attempts: datasets shuffle alike, so that each example is one worker's, or is met again."""
    begin_alike(cluster)
    tensorflow.random.set_seed(cluster.seed)


def _serve(keras: ModuleType, tensorflow: Any, cluster: Cluster) -> None:
    from .parameter_servers import Served, begin

    tensorflow.distribute.experimental_set_strategy(begin(tensorflow, cluster))
    _keep_the_context()
    Served(keras, tensorflow, cluster).put_in_place()


def _resume(keras: ModuleType, tensorflow: Any, cluster: Cluster, *, is_legacy: bool) -> Optional[Resume]:
    """What saves and goes on, if that is asked for."""
    folder = _checkpoint_folder()
    if not folder:
        return None
    kind: Callable[..., Resume]
    if is_legacy:
        from stoker.frameworks.keras.resume.on_tf_keras import TfKerasResume as kind

        keras.backend.experimental.enable_tf_random_generator()  # whose state can be saved
    else:
        from stoker.frameworks.keras.resume.on_tensorflow import TensorflowResume as kind
    return kind(keras, tensorflow, cluster, folder, Rhythm(os.environ))


def _checkpoint_folder() -> str:
    """Where `fit` is saved; empty: it is not. Raises Refused where it should be, and there is no such place."""
    if not os.environ.get("STOKER_CHECKPOINTS") or cluster_of(os.environ).rank < 0 or saves_itself():
        return ""
    folder = os.environ.get("STOKER_CHECKPOINT_DIR", "")
    if not folder:
        raise Refused(
            "--checkpoints has nowhere to write: the job has no directory",
            "give --job-dir gs://BUCKET/FOLDER or --job-dir /FOLDER",
        )
    return os.path.join(folder, "fit")


def _mirrored(tensorflow: Any, cluster: Cluster) -> Any:
    if cluster.is_pretended:
        names = _pretend(tensorflow, cluster.devices)
    else:
        names = [f"GPU:{n}" for n in range(_gpus(tensorflow, cluster))]
    return tensorflow.distribute.MirroredStrategy(names)


def _multiworker(tensorflow: Any, keras: ModuleType, cluster: Cluster, is_legacy: bool) -> Any:
    if not is_legacy:
        from .worker_fixes import mend

        mend(keras, tensorflow)
    if cluster.is_pretended and cluster.devices > 1 and cluster.is_chief:
        say(f"a rehearsal: each of the {cluster.processes} workers trains on its processors, as one replica")
    if not cluster.is_pretended and cluster.devices:
        _gpus(tensorflow, cluster)
    try:
        return tensorflow.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise Refused(
            f"TensorFlow has computed before Keras was imported, and its workers cannot meet any more ({error})",
            "import keras at the top of the program",
        ) from None


def _gpus(tensorflow: Any, cluster: Cluster) -> int:
    there = len(tensorflow.config.list_physical_devices("GPU"))
    if there < cluster.devices:
        raise Refused(
            f"asked for {cluster.devices} GPUs, TensorFlow {tensorflow.__version__} sees {there}",
            "install TensorFlow with CUDA (tensorflow[and-cuda]) in the job's environment, or ask for fewer",
        )
    return cluster.devices


def _pretend(tensorflow: Any, count: int) -> list[str]:
    """In a rehearsal parts of the processor stand for accelerators."""
    (cpu,) = tensorflow.config.list_physical_devices("CPU")
    parts = [tensorflow.config.LogicalDeviceConfiguration()] * count
    tensorflow.config.set_logical_device_configuration(cpu, parts)
    return [f"CPU:{n}" for n in range(count)]


def _keep_the_context() -> None:
    """What programs say of devices before TensorFlow begins comes too late by now: it is skipped, and that is said."""
    replace(BEGUN, {path: _skipped(path.rpartition(".")[2]) for path in BEGUN.names})


def _skipped(name: str) -> Callable[[Any], Callable[..., None]]:
    def skipped(*_: Any, **__: Any) -> None:
        say(f"tf.config's {name} is skipped: TensorFlow has begun already, with its workers (--distribute)")

    return lambda _: skipped
