"""Train a digit classifier on several JAX processes: each works on its share of every batch, and psum adds it all up.

JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID say who is who. Without them this is one process.
A process which loses another one cannot go on: it leaves with exit code 143, to be run again.
"""

import argparse
import os
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

STOPPED = 143  # 128 + SIGTERM: stopped from outside, to be run again
HELD_OUT = 360  # images that training never sees
EVERYWHERE, SHARED_OUT = PartitionSpec(), PartitionSpec("data")


def main() -> None:
    arguments = parse_arguments()
    if int(os.environ.get("JAX_NUM_PROCESSES", "1")) > 1:
        join()
    mesh = Mesh(jax.devices(), ("data",))  # the devices of all processes
    global_batch_size = arguments.batch_size * mesh.size

    def say(text: str) -> None:
        print(f"process {jax.process_index()}: {text}", flush=True)

    say(f"{jax.process_count()} processes · devices {mesh.size}, here {len(jax.local_devices())}")
    say(f"batch per device {arguments.batch_size} · global batch {global_batch_size}")

    (images, labels), test = load()
    steps_per_epoch = len(images) // global_batch_size
    train_step = make_train_step(mesh, arguments.learning_rate)
    weights = jax.device_put(first_weights(), NamedSharding(mesh, EVERYWHERE))
    momentum = jax.tree.map(jnp.zeros_like, weights)
    share_out = partial(jax.make_array_from_process_local_data, NamedSharding(mesh, SHARED_OUT))

    for epoch in range(arguments.epochs):
        began, losses = time.monotonic(), []
        order = np.random.default_rng(epoch).permutation(len(images))  # the same on every process
        for step in range(steps_per_epoch):
            batch = order[step * global_batch_size : (step + 1) * global_batch_size]
            mine = np.split(batch, jax.process_count())[jax.process_index()]
            weights, momentum, loss = train_step(weights, momentum, share_out(images[mine]), share_out(labels[mine]))
            losses.append(float(loss))
        accuracy, seconds = measure(weights, *test), time.monotonic() - began
        progress = f"loss {np.mean(losses):.4f} · accuracy {accuracy:.4f} · {seconds:.1f} s"
        say(f"epoch {epoch + 1}/{arguments.epochs} · {steps_per_epoch} steps · {progress}")

    say(f"accuracy {measure(weights, *test):.4f}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="per device")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--job-dir", help="given to every program of a job that has one; not used here")
    return parser.parse_args()


def join() -> None:
    """Meet the other processes. This returns when all of them are there."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # without it CPUs cannot exchange anything
    jax.distributed.initialize(
        os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )


def make_train_step(mesh: Mesh, learning_rate: float):
    """One step of gradient descent with momentum, run by every device on its own share of the batch."""

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, SHARED_OUT, SHARED_OUT),
        out_specs=EVERYWHERE,
        check_vma=False,  # else JAX adds up the gradients by itself, and there is nothing to see
    )
    def train_step(weights, momentum, images, labels):
        loss, gradients = jax.value_and_grad(mean_loss)(weights, images, labels)
        loss, gradients = jax.lax.psum((loss, gradients), "data")  # over all devices of all processes
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g / mesh.size, momentum, gradients)
        weights = jax.tree.map(lambda w, m: w - learning_rate * m, weights, momentum)
        return weights, momentum, loss / mesh.size

    return train_step


def first_weights() -> dict:
    first, second = jax.random.split(jax.random.key(7))
    return {
        "hidden": jax.random.normal(first, (64, 128)) * (2 / 64) ** 0.5,
        "hidden_bias": jnp.zeros(128),
        "scores": jax.random.normal(second, (128, 10)) * (2 / 128) ** 0.5,
        "scores_bias": jnp.zeros(10),
    }


def scores(weights, images):
    hidden = jax.nn.relu(images @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["scores"] + weights["scores_bias"]


def mean_loss(weights, images, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores(weights, images)), labels[:, None], axis=1)
    return -chosen.mean()


def load():
    """The digits that come with scikit-learn: (images, labels) to train on, and (images, labels) to test with."""
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    pixels, digits = (pixels[order] / 16).astype("float32"), digits[order].astype("int32")
    return (pixels[HELD_OUT:], digits[HELD_OUT:]), (pixels[:HELD_OUT], digits[:HELD_OUT])


def measure(weights, images, labels) -> float:
    """The share of images that the network reads rightly. Each process asks its own copy of the weights."""
    mine = jax.tree.map(lambda w: w.addressable_data(0), weights)
    return float((scores(mine, images).argmax(axis=1) == labels).mean())


if __name__ == "__main__":
    try:
        main()
    except jax.errors.JaxRuntimeError as error:
        if "Gloo" not in str(error):
            raise
        print(f"another process went away: {str(error).splitlines()[0]}", flush=True)
        os._exit(STOPPED)  # at once: the usual way out would wait for all the processes to say goodbye
