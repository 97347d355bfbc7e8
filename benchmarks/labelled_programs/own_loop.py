"""A loop of a program's own, in numpy, whose trouble is chosen: `python own_loop.py KIND SECONDS [NUMBER]`."""

import sys
import time

import numpy as np

import stoker

KIND, SECONDS = sys.argv[1], float(sys.argv[2])
NUMBER = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
weights = np.ones((384, 384))


def batches():
    while time.time() < began + SECONDS:
        if KIND == "sleeps":
            time.sleep(0.02 * NUMBER)
        elif KIND == "augments":
            for _ in range(int(4 * NUMBER)):
                np.linalg.svd(np.ones((96, 96)) + np.eye(96))
        yield np.ones((64, 384))


began = time.time()
for number, inputs in enumerate(stoker.reading(batches())):
    for _ in range(12):
        inputs = np.tanh(inputs @ weights)
    stoker.step(examples=64, loss=float(inputs.mean()))
    if KIND == "saves" and number % 50 == 49:
        np.save("mine.npy", weights)
        time.sleep(0.5)
