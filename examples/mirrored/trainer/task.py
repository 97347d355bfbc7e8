"""Train one model on all the GPUs of one machine with MirroredStrategy.

Each step takes 64 images per GPU, so twice the GPUs halve the steps of an epoch: 89 with one, 45 with two. Where the
machine has no GPU the CPU is divided into as many logical devices as the job was given GPUs: slower, but the same
arithmetic.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only; read when TensorFlow is imported
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same numbers on every machine

import argparse
import math
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

BATCH_SIZE_PER_REPLICA = 64
TRAINING_IMAGES = 5656  # as many as the Cassava set has


def main() -> None:
    arguments = parse_arguments()
    strategy = tf.distribute.MirroredStrategy(choose_devices())
    global_batch_size = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync
    images, labels = load_images()
    print(f"num_replicas_in_sync: {strategy.num_replicas_in_sync}")
    print(f"devices: {', '.join(strategy.extended.worker_devices)}")
    print(f"global batch: {BATCH_SIZE_PER_REPLICA} x {strategy.num_replicas_in_sync} = {global_batch_size}")
    print(f"steps per epoch: {math.ceil(len(images) / global_batch_size)}", flush=True)

    keras.utils.set_random_seed(7)
    with strategy.scope():  # what is made in here has a copy on each device
        network = build()
        network.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    network.fit(images, labels, global_batch_size, arguments.epochs, verbose=0, callbacks=[Progress()])

    if arguments.job_dir:
        arguments.job_dir.mkdir(parents=True, exist_ok=True)
        network.save(arguments.job_dir / "model.keras")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--job-dir", type=Path, help="where the trained model goes")
    return parser.parse_args()


def choose_devices() -> list[str]:
    """As many devices as the job was given: the machine's GPUs or, where it has none, logical CPUs."""
    gpus = tf.config.list_physical_devices("GPU")
    given = [device for device in os.environ.get("STOKER_DEVICES", "").split(",") if device]
    count = len(given) or len(gpus) or 1
    if gpus:
        return [f"GPU:{index}" for index in range(count)]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return [f"CPU:{index}" for index in range(count)]


def load_images() -> tuple[np.ndarray, np.ndarray]:
    """The digits of scikit-learn, over and over with a little noise, until there are enough of them."""
    pixels, digits = load_digits(return_X_y=True)
    chosen = np.arange(TRAINING_IMAGES) % len(pixels)
    noise = np.random.default_rng(0).normal(0, 0.05, (TRAINING_IMAGES, 64))
    images = pixels[chosen] / 16 + noise
    return images.reshape(-1, 8, 8, 1).astype("float32"), digits[chosen].astype("int32")


def build() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


class Progress(keras.callbacks.Callback):
    """One line an epoch, with the steps that were really taken."""

    def on_epoch_begin(self, epoch, logs=None):
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1

    def on_epoch_end(self, epoch, logs=None):
        figures = ", ".join(f"{name} {value:.4f}" for name, value in logs.items())
        print(f"epoch {epoch + 1}: {self.steps} steps, {figures}", flush=True)


if __name__ == "__main__":
    main()
