"""Train a small convolutional network on Fashion-MNIST with Keras, on one device. There is nothing in it of clusters."""

import argparse
import gzip
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
parser.add_argument("--images", type=int, default=60_000, help="so many of those to train on")
parser.add_argument("--epochs", type=int, default=3)
arguments = parser.parse_args()


def read(name: str) -> tuple:
    """Images and labels, as the files hold them: behind 16 and 8 bytes that tell their shape."""
    images = gzip.decompress((arguments.data / f"{name}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((arguments.data / f"{name}-labels-idx1-ubyte.gz").read_bytes())
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    return (pixels / 255).astype("float32"), np.frombuffer(labels, np.uint8, offset=8).astype("int32")


keras.utils.set_random_seed(7)
(images, labels), (test_images, test_labels) = read("train"), read("t10k")
model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
used = slice(arguments.images)
model.fit(images[used], labels[used], batch_size=64, epochs=arguments.epochs, verbose=2)
loss, accuracy = model.evaluate(test_images, test_labels, batch_size=500, verbose=0)
print(f"accuracy {accuracy:.4f}, loss {loss:.6f}, after {int(model.optimizer.iterations)} steps")
