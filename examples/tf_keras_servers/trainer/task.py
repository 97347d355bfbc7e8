"""Train a digit classifier with tf_keras, on one device. There is nothing in it of clusters."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tf.keras is tf_keras then; read when TensorFlow is imported

import argparse

import tf_keras as keras
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--job-dir", help="given to every program of a job that has one; not used here")
arguments = parser.parse_args()

keras.utils.set_random_seed(7)
pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")
train, test = slice(0, 1440), slice(1440, None)

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
model.compile(
    optimizer=keras.optimizers.Adam(0.005),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(pixels[train], digits[train], batch_size=32, epochs=arguments.epochs, verbose=2)
loss, accuracy = model.evaluate(pixels[test], digits[test], verbose=0)
print(f"accuracy {accuracy:.3f} after {int(model.optimizer.iterations.numpy())} steps")
