"""`fit` with its stages, in a Keras of a few lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
KERAS = """
class Model:
    def fit(self, x=None, epochs=1, callbacks=None):
        "Trains."
        return x, epochs, callbacks
"""
PROGRAM = """
import keras
from stoker.frameworks.keras.fit import surround_fit

def stage(name):
    def run(call, fit):
        call.asked["x"] = call.asked["x"] + [name]
        return (name, len(call.data), fit())
    return run

for name in ("measure", "distribute", "resume"):
    surround_fit(keras, name, stage(name))
print(keras.Model().fit([], epochs=3), keras.Model.fit.__doc__)
for wrong in ("resume", "another"):
    try:
        surround_fit(keras, wrong, stage(wrong))
    except ValueError as error:
        print(error)
try:
    keras.Model().fit([], epoch=3)
except TypeError as error:
    print(error)
"""


def test_stages_have_an_order_whoever_comes_first(tmp_path: Path) -> None:
    (tmp_path / "keras.py").write_text(KERAS)
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "('distribute', 0, ('resume', 0, ('measure', 0, (['distribute', 'resume', 'measure'], 3, None)))) Trains.",
        "resume is no stage of fit, or there is one already",
        "another is no stage of fit, or there is one already",
        "Model.fit() got an unexpected keyword argument 'epoch'",
    ], done.stderr
