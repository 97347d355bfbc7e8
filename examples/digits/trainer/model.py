"""The network, and how it is written down for serving."""

import keras
import tensorflow as tf


def build():
    """A small convolutional network: 64 pixels in, one score for each of ten digits out."""
    return keras.Sequential(
        [
            keras.Input((64,), name="pixels"),
            keras.layers.Rescaling(1 / 16),
            keras.layers.Reshape((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def export(trained, directory):
    """Write a SavedModel that takes `pixels` and answers `digit` and `probabilities`."""
    plain = build()  # the same network outside the strategy: serving needs no cluster
    plain.set_weights(trained.get_weights())

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, name="pixels")])
    def serve(pixels):
        probabilities = tf.nn.softmax(plain(pixels))
        return {"digit": tf.argmax(probabilities, axis=1), "probabilities": probabilities}

    tf.saved_model.save(plain, str(directory), signatures=serve)
