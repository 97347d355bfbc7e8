"""A Keras program whose trouble is chosen: `python keras_program.py KIND SECONDS [NUMBER]`."""

import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
import tensorflow as tf

KIND, SECONDS = sys.argv[1], float(sys.argv[2])
NUMBER = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
tf.config.threading.set_intra_op_parallelism_threads(1)
keras.utils.set_random_seed(0)
width = 16 if KIND == "tiny" else 512
model = keras.Sequential([keras.layers.Dense(width, activation="relu") for _ in range(3)] + [keras.layers.Dense(1)])
model.compile("adam" if KIND == "adam" else "sgd", "mse")
inputs, wanted = np.ones((64 * 50, 256), "float32"), np.ones((64 * 50, 1), "float32")


class Until(keras.callbacks.Callback):
    """Ends it when its time is over, after an epoch: TensorFlow hangs at its end with data that were left in the middle."""

    def on_epoch_end(self, epoch, logs=None):
        if time.time() > began + SECONDS:
            self.model.stop_training = True


def slow(part):
    if KIND == "sleeps":
        time.sleep(0.03 * NUMBER)
    else:
        for _ in range(int(8 * NUMBER)):
            np.linalg.svd(np.random.default_rng(0).standard_normal((64, 64)))
    return part


def read(part, target):
    return tf.ensure_shape(tf.numpy_function(slow, [part], tf.float32), [None, 256]), target


began = time.time()
plain = tf.data.Dataset.from_tensor_slices((inputs, wanted)).batch(64)
options = {"epochs": 10_000, "verbose": 0, "callbacks": [Until()]}
if KIND in ("sleeps", "augments"):
    model.fit(plain.map(read), **options)
elif KIND == "tiny":
    model.fit(inputs, wanted, batch_size=int(NUMBER), **options)
elif KIND == "evaluates":
    KIND = "sleeps"
    model.fit(plain.prefetch(2), validation_data=plain.take(8).map(read), **options)
elif KIND == "arrays":
    model.fit(inputs, wanted, batch_size=64, **options)
else:
    model.fit(plain.cache().prefetch(tf.data.AUTOTUNE), **options)
