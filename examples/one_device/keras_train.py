"""Train a digit classifier with Keras on one device. There is nothing in it of clusters."""

import sys

import keras
from sklearn.datasets import load_digits

keras.utils.set_random_seed(7)
pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")
train, test = slice(0, 1440), slice(1440, None)

model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
model.fit(pixels[train], digits[train], batch_size=24, epochs=epochs, verbose=2)
loss, accuracy = model.evaluate(pixels[test], digits[test], verbose=0)
print(f"accuracy {accuracy:.3f} after {int(model.optimizer.iterations)} steps")
