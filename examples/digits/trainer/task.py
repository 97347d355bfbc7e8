"""Train a digit classifier on one replica or many: the same code, whatever the shape of the job.

MultiWorkerMirroredStrategy reads the cluster from TF_CONFIG. Every replica holds the whole network, computes gradients
on its own share of each global batch and applies the sum of everyone's, so that all of them stay equal. The loop is our
own, because `keras.Model.fit` does not work under this strategy in Keras 3.

Checkpoints go to JOB_DIR/checkpoints and the newest one is restored at the start, so the job may be stopped at any time
and run again. On SIGTERM all replicas save the same step and leave with exit code 143; so do those which lose another
one, for they cannot go on without it.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only; read when TensorFlow is imported
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same numbers on every machine

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import keras
import tensorflow as tf

from trainer import data, model

tf.get_logger().setLevel("ERROR")

STOPPED = 143  # 128 + SIGTERM: stopped from outside, to be run again
PEER_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)  # what its absence raises


def main() -> int:
    arguments, began = parse_arguments(), time.monotonic()
    job_dir, kept = arguments.job_dir, arguments.job_dir / "checkpoints"
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    task = config.get("task", {"type": "chief", "index": 0})
    is_chief = task["type"] == "chief"

    # 1. Join the cluster. This returns when every replica is there.
    print(f"cluster {json.dumps(config.get('cluster', {}))}")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    global_batch_size = arguments.batch_size * replicas
    print(f"replicas in sync {replicas} · batch per replica {arguments.batch_size} · global batch {global_batch_size}")

    # 2. The same data and the same first weights everywhere.
    keras.utils.set_random_seed(arguments.seed)
    (images, labels), test = data.load()
    steps_per_epoch = len(images) // global_batch_size
    with strategy.scope():
        network = model.build()
        optimizer = keras.optimizers.Adam(arguments.learning_rate)
        optimizer.build(network.trainable_variables)
    train_step = make_train_step(strategy, network, optimizer, global_batch_size)

    # 3. Go on from the newest checkpoint. Every replica takes part in a save, but only the chief's files are kept.
    checkpoint = tf.train.Checkpoint(network=network, optimizer=optimizer)
    thrown_away = tempfile.TemporaryDirectory()
    manager = tf.train.CheckpointManager(checkpoint, str(kept) if is_chief else thrown_away.name, max_to_keep=3)
    if newest := tf.train.latest_checkpoint(str(kept)):
        checkpoint.restore(newest).assert_consumed()
        print(f"restored {newest}")
    else:
        print(f"no checkpoint in {kept}: starting anew")

    # 4. Train, and save at the end of each epoch or when asked to stop.
    with StopSignal() as stop:
        step = int(optimizer.iterations.numpy())
        for epoch in range(step // steps_per_epoch, arguments.epochs):
            first_step, epoch_began, losses = step % steps_per_epoch, time.monotonic(), []
            batches = data.batches(strategy, images, labels, arguments.batch_size, epoch, first_step)
            for _, batch in zip(range(first_step, steps_per_epoch), batches, strict=False):
                loss, stopping = train_step(batch, tf.constant(float(stop.wanted)))
                step, losses = step + 1, [*losses, float(loss)]
                if stopping > 0:
                    manager.save(checkpoint_number=step)
                    print(f"asked to stop: saved step {step}")
                    return STOPPED
            manager.save(checkpoint_number=step)
            accuracy, _ = evaluate(network, *test)
            loss, seconds = sum(losses) / len(losses), time.monotonic() - epoch_began
            progress = f"loss {loss:.4f} · accuracy {accuracy:.4f} · {seconds:.1f} s"
            print(f"epoch {epoch + 1}/{arguments.epochs} · step {step} · {progress}")

    # 5. The chief writes the results.
    accuracy, loss = evaluate(network, *test)
    if not is_chief:
        return 0
    model.export(network, job_dir / "model")
    metrics = {"accuracy": accuracy, "loss": loss, "epochs": arguments.epochs, "replicas": replicas}
    metrics["seconds"] = round(time.monotonic() - began, 1)
    (job_dir / "metrics.json").write_text(json.dumps(metrics) + "\n")
    print(f"model in {job_dir / 'model'}")
    print(f"accuracy {accuracy:.4f}\nloss {loss:.4f}", flush=True)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="per replica")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--job-dir", type=Path, default=Path("output"))
    return parser.parse_args()


def make_train_step(strategy, network, optimizer, global_batch_size):
    """A function that does one step on all replicas; it returns the mean loss, and how many replicas want to stop."""

    @tf.function
    def train_step(batch, wanted):
        images, labels = batch
        results = strategy.run(on_each_replica, args=(images, labels, wanted))
        return tf.unstack(strategy.reduce("SUM", results, axis=None))

    def on_each_replica(images, labels, wanted):
        with tf.GradientTape() as tape:
            losses = cross_entropy(labels, network(images, training=True))
            loss = tf.reduce_sum(losses) / global_batch_size  # so that the sum over replicas is the global mean
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply(gradients, network.trainable_variables)  # sums the gradients of all replicas first
        return tf.stack([loss, wanted])  # one tensor: one exchange

    return train_step


def evaluate(network, images, labels) -> tuple[float, float]:
    """Accuracy and loss on the held-out images. Every replica does it for itself: equal answers mean equal weights."""
    scores = network(images)
    hits = tf.argmax(scores, axis=1, output_type=labels.dtype) == labels
    return float(tf.reduce_mean(tf.cast(hits, tf.float32))), float(tf.reduce_mean(cross_entropy(labels, scores)))


def cross_entropy(labels, scores):
    return keras.losses.sparse_categorical_crossentropy(labels, scores, from_logits=True)


class StopSignal:
    """Inside this block SIGTERM does not end the program at once: it only sets `wanted`."""

    def __enter__(self):
        self.wanted = False
        self.before = signal.signal(signal.SIGTERM, self.note)
        return self

    def note(self, signum, frame):
        self.wanted = True

    def __exit__(self, *exc):
        signal.signal(signal.SIGTERM, self.before)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PEER_LOST as error:
        print(f"another replica went away: {type(error).__name__}", flush=True)
        sys.exit(STOPPED)
