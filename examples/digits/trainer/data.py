"""The digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, each 0 to 16, and the digit each one shows."""

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

HELD_OUT = 360  # images that training never sees


def load():
    """Return (images, labels) to train on and (images, labels) to test with. Every replica gets the same ones."""
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    pixels, digits = pixels[order].astype("float32"), digits[order].astype("int32")
    return (pixels[HELD_OUT:], digits[HELD_OUT:]), (pixels[:HELD_OUT], digits[:HELD_OUT])


def batches(strategy, images, labels, batch_size, epoch, first_step=0):
    """One epoch's batches from `first_step` on, then again. Every worker reads its own share of one common order."""

    def share(context):
        global_batch_size = batch_size * context.num_replicas_in_sync
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        data = data.shuffle(len(images), seed=epoch)  # an order per epoch, which a resumed run finds again
        data = data.take(len(images) // global_batch_size * global_batch_size)  # whole batches: as many for each worker
        data = data.skip(first_step * global_batch_size)
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        # Without an end, for the replicas would have to agree at every step whether there is one.
        return data.batch(batch_size, drop_remainder=True).repeat()

    return strategy.distribute_datasets_from_function(share)
