"""What to change in a program, for the framework that it uses."""

from __future__ import annotations

_LOADER_WORKERS = 4


def read_ahead(framework: str, cpus: float) -> str:
    """So that the next batches are made while this one is trained on."""
    if framework == "torch":
        workers = max(1, min(_LOADER_WORKERS, int(cpus) - 1))
        return (
            f"DataLoader(dataset, num_workers={workers}, prefetch_factor=4, persistent_workers=True, pin_memory=True)"
        )
    if framework == "keras":
        return "dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(size).prefetch(tf.data.AUTOTUNE)"
    return ""


def prepare_once(framework: str) -> str:
    """So that what is costly is done once, and not in each epoch."""
    if framework == "keras":
        return "dataset.map(prepare).cache(folder).shuffle(1000).batch(size).prefetch(tf.data.AUTOTUNE)"
    if framework == "torch":
        return 'numpy.save("prepared.npy", prepared)    # once; then: numpy.load("prepared.npy", mmap_mode="r")'
    return ""


def send_quickly(framework: str) -> str:
    """So that what goes to the GPU goes while it computes."""
    if framework == "torch":
        return 'DataLoader(…, pin_memory=True); batch = batch.to("cuda", non_blocking=True)'
    if framework == "keras":
        return "dataset.prefetch(tf.data.AUTOTUNE)    # images as uint8, made floats by layers.Rescaling(1 / 255)"
    return ""


def compile_it(framework: str) -> str:
    """So that many small kernels become few."""
    if framework == "torch":
        return 'model = torch.compile(model, mode="reduce-overhead")'
    if framework == "keras":
        return "model.compile(…, jit_compile=True, steps_per_execution=16)"
    return ""


def larger_batch(framework: str, batch: int, factor: float) -> str:
    """More work a step."""
    if not batch:
        return ""
    size = max(2 * batch, round(batch * factor))
    if framework == "torch":
        return f"DataLoader(dataset, batch_size={size})    # and --learning-rate-rule linear, or sqrt for Adam"
    return f"batch_size={size}    # and --learning-rate-rule linear, or sqrt for Adam"
