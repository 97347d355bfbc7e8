"""Train a ResNet50 on a folder of labelled photos with Keras, on one device. There is nothing in it of clusters."""

import argparse

import keras

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--photos", default="photos", help="a folder for each label, with its photos in it")
parser.add_argument("--size", type=int, default=96, help="pixels of a side")
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=20)
arguments = parser.parse_args()

keras.utils.set_random_seed(7)
size = (arguments.size, arguments.size)
training, checking = keras.utils.image_dataset_from_directory(
    arguments.photos,
    image_size=size,
    batch_size=arguments.batch_size,
    validation_split=0.2,
    subset="both",
    seed=7,
)
labels = training.class_names

model = keras.Sequential(
    [
        keras.Input((*size, 3)),
        keras.layers.RandomFlip("horizontal"),
        keras.layers.RandomRotation(0.05),
        keras.layers.Rescaling(1 / 127.5, offset=-1),
        keras.applications.ResNet50(include_top=False, weights=None, input_shape=(*size, 3), pooling="avg"),
        keras.layers.Dense(len(labels)),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.001),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(training, validation_data=checking, epochs=arguments.epochs, verbose=2)
loss, accuracy = model.evaluate(checking, verbose=0)
print(f"accuracy {accuracy:.3f} of {len(labels)} labels after {int(model.optimizer.iterations)} steps")
