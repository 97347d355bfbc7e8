"""Train with ParameterServerStrategy: one program, four roles.

The parameter servers hold the weights. The chief hands out training steps to whichever worker is free; a worker fetches
the weights, computes gradients and sends them back, without waiting for the other workers. Workers and parameter
servers serve until they are stopped: the job is done when the chief is. An evaluator, which stands outside the cluster,
tests each new checkpoint.

The loop is our own, because `keras.Model.fit` does not work under this strategy in Keras 3.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only; read when TensorFlow is imported
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same numbers on every machine
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # the chief is told of a lost worker, instead of waiting for it

import argparse
import json
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

tf.get_logger().setLevel("ERROR")

STOPPED = 143  # 128 + SIGTERM: stopped from outside, to be run again
HELD_OUT = 360  # images that training never sees


def main() -> int:
    arguments = parse_arguments()
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster, task = config.get("cluster", {}), config.get("task", {"type": "chief", "index": 0})
    role, index = task["type"], task["index"]

    print(", ".join(f"{name} x {len(members)}" for name, members in cluster.items()) or "no cluster")
    if role in ("worker", "ps"):
        serve(cluster, role, index)
    elif role == "evaluator":
        evaluate_for_ever(arguments.job_dir / "checkpoints")
    elif not (cluster.get("worker") and cluster.get("ps")):
        print("this example needs at least one worker and one parameter server, see config.yaml")
        return 2
    else:
        coordinate(arguments)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="images of one step of one worker")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--job-dir", type=Path, default=Path("output"))
    return parser.parse_args()


def serve(cluster: dict, role: str, index: int) -> None:
    """A worker or parameter server: do what the chief asks, until stopped."""
    server = tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=role, task_index=index, protocol="grpc")
    server.join()


def coordinate(arguments: argparse.Namespace) -> None:
    """The chief: make the model on the parameter servers, then hand out the steps."""
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    (images, labels), test = load()
    steps_per_epoch = len(images) // arguments.batch_size

    keras.utils.set_random_seed(7)
    with strategy.scope():
        network = build()
        optimizer = keras.optimizers.Adam(arguments.learning_rate)
        optimizer.build(network.trainable_variables)
        epochs_done = tf.Variable(0)  # the optimizer's own count misses steps when two workers finish at once
    print(f"weights on {network.trainable_variables[0].value.device}")

    checkpoint = tf.train.Checkpoint(network=network, optimizer=optimizer, epochs_done=epochs_done)
    manager = tf.train.CheckpointManager(checkpoint, str(arguments.job_dir / "checkpoints"), max_to_keep=5)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint)
        print(f"restored {manager.latest_checkpoint}")

    def endless_batches():
        data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
        return data.batch(arguments.batch_size)

    @tf.function
    def train_step(batches):
        def on_worker(images, labels):
            with tf.GradientTape() as tape:
                losses = keras.losses.sparse_categorical_crossentropy(labels, network(images), from_logits=True)
                loss = tf.reduce_mean(losses)
            optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
            return loss

        return strategy.run(on_worker, args=next(batches))

    batches = iter(coordinator.create_per_worker_dataset(endless_batches))  # each worker shuffles for itself
    for epoch in range(int(epochs_done.numpy()), arguments.epochs):
        losses = [coordinator.schedule(train_step, args=(batches,)) for _ in range(steps_per_epoch)]
        coordinator.join()  # until all these steps are done, whoever did them
        epochs_done.assign(epoch + 1)
        manager.save(checkpoint_number=epoch + 1)
        loss, accuracy = np.mean(coordinator.fetch(losses)), measure(network, *test)
        progress = f"loss {loss:.4f} · accuracy {accuracy:.4f}"
        print(f"epoch {epoch + 1}/{arguments.epochs} · {steps_per_epoch} steps · {progress}")

    print(f"accuracy {measure(network, *test):.4f}", flush=True)


def evaluate_for_ever(checkpoints: Path) -> None:
    """The evaluator: test every new checkpoint, until stopped."""
    network, test, newest = build(), load()[1], None
    while True:
        found = tf.train.latest_checkpoint(str(checkpoints))
        if found and found != newest:
            newest = found
            tf.train.Checkpoint(network=network).restore(newest).expect_partial()
            print(f"{Path(newest).name} · accuracy {measure(network, *test):.4f}")
        time.sleep(0.5)


def load():
    """The digits that come with scikit-learn: (images, labels) to train on, and (images, labels) to test with."""
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    pixels, digits = (pixels[order] / 16).astype("float32"), digits[order].astype("int32")
    return (pixels[HELD_OUT:], digits[HELD_OUT:]), (pixels[:HELD_OUT], digits[:HELD_OUT])


def build() -> keras.Model:
    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])


def measure(network, images, labels) -> float:
    """The share of images that the network reads rightly."""
    return float(np.mean(np.argmax(network(images), axis=1) == labels))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except tf.errors.UnavailableError:  # a lost worker is made up for by the others, lost weights are not
        print("a parameter server went away: run this again, from the newest checkpoint", flush=True)
        sys.exit(STOPPED)
