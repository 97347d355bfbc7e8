"""How true it is what `stoker choose` says of a training's memory: real models, trained for a few steps, beside the estimate.

The peak is that of a process on the CPU beyond what it took before it had a model. The formulas were written with some of these
models at hand; those that are marked `unseen` were measured when they were done, and nothing was changed after that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.hardware.choosing.training_memory import estimate
from stoker.hardware.choosing.workload import Framework, ModelKind, Precision, Workload

from .measure import Row

RUNS = 1
LEAST, MOST = 0.8, 1.5
"""The estimate is to be within these times the measured peak."""

_MAPPED = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144", "MALLOC_ARENA_MAX": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model with its sizes, and what the estimate is told of it."""

    name: str
    model: str
    sizes: Mapping[str, Any]
    kind: ModelKind
    framework: Framework = Framework.TORCH
    unseen: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)

    def work(self, measured: Mapping[str, Any]) -> Workload:
        """What the estimate is asked. `measured`: for the size of the model, which people know."""
        names = {
            "width": "hidden",
            "layers": "layers",
            "sequence": "sequence",
            "vocabulary": "vocabulary",
            "batch": "batch",
        }
        shape = {name: self.sizes[key] for key, name in names.items() if key in self.sizes}
        return Workload(
            parameters=measured["parameters"],
            activations=measured["activations"],
            optimizer=self.sizes["optimizer"],
            precision=Precision(self.sizes.get("precision", "fp32")),
            kind=self.kind,
            framework=self.framework,
            **shape,
            **self.told,
        )


def _sizes(**sizes: Any) -> Mapping[str, Any]:
    return sizes


CASES = (
    Case(
        name="torch MLP, Adam, fp32",
        model="torch_mlp",
        sizes=_sizes(optimizer="adam", precision="fp32", width=2048, layers=8, batch=512),
        kind=ModelKind.DENSE,
    ),
    Case(
        name="torch CNN, SGD, fp32",
        model="torch_cnn",
        sizes=_sizes(optimizer="sgd", precision="fp32", blocks=8, channels=32, side=64, batch=64),
        kind=ModelKind.CONVOLUTIONAL,
    ),
    Case(
        name="torch transformer, AdamW, bf16",
        model="torch_transformer",
        sizes=_sizes(optimizer="adamw", precision="bf16", width=512, layers=6, sequence=256, batch=16, vocabulary=0),
        kind=ModelKind.TRANSFORMER,
    ),
    Case(
        name="JAX MLP, Adam, fp32",
        model="jax_mlp",
        sizes=_sizes(optimizer="adam", width=2048, layers=6, batch=512),
        kind=ModelKind.DENSE,
        framework=Framework.JAX,
    ),
    Case(
        name="torch language model, AdamW, fp32",
        model="torch_transformer",
        sizes=_sizes(
            optimizer="adamw", precision="fp32", width=384, layers=4, sequence=128, batch=16, vocabulary=16000
        ),
        kind=ModelKind.TRANSFORMER,
    ),
    Case(
        name="torch LSTM, Adam, fp32",
        model="torch_lstm",
        sizes=_sizes(optimizer="adam", precision="fp32", width=512, layers=2, sequence=128, batch=64),
        kind=ModelKind.RECURRENT,
    ),
    Case(
        name="torch MLP, SGD with momentum, pure bf16",
        model="torch_mlp",
        sizes=_sizes(optimizer="momentum", precision="pure-bf16", width=3072, layers=8, batch=128),
        kind=ModelKind.DENSE,
    ),
    Case(
        name="torch CNN, Adam, bf16",
        model="torch_cnn",
        sizes=_sizes(optimizer="adam", precision="bf16", blocks=6, channels=48, side=64, batch=64),
        kind=ModelKind.CONVOLUTIONAL,
    ),
    Case(
        name="JAX transformer, SGD, fp32",
        model="jax_transformer",
        sizes=_sizes(optimizer="sgd", width=384, layers=4, sequence=256, batch=8),
        kind=ModelKind.TRANSFORMER,
        framework=Framework.JAX,
        told={"heads": 6},
    ),
    Case(
        name="JAX transformer, Adam, fp32",
        model="jax_transformer",
        sizes=_sizes(optimizer="adam", width=512, layers=3, sequence=128, batch=24),
        kind=ModelKind.TRANSFORMER,
        framework=Framework.JAX,
        unseen=True,
        told={"heads": 8},
    ),
    Case(
        name="torch LSTM, SGD, fp32",
        model="torch_lstm",
        sizes=_sizes(optimizer="sgd", precision="fp32", width=384, layers=3, sequence=96, batch=96),
        kind=ModelKind.RECURRENT,
        unseen=True,
    ),
    Case(
        name="torch CNN, SGD with momentum, fp32",
        model="torch_cnn",
        sizes=_sizes(optimizer="momentum", precision="fp32", blocks=12, channels=24, side=96, batch=32),
        kind=ModelKind.CONVOLUTIONAL,
        unseen=True,
    ),
    Case(
        name="torch transformer, SGD, fp32",
        model="torch_transformer",
        sizes=_sizes(optimizer="sgd", precision="fp32", width=640, layers=4, sequence=192, batch=12, vocabulary=0),
        kind=ModelKind.TRANSFORMER,
        unseen=True,
    ),
    Case(
        name="Keras MLP on TensorFlow, Adam, fp32",
        model="keras_mlp",
        sizes=_sizes(optimizer="adam", width=2048, layers=8, batch=512),
        kind=ModelKind.DENSE,
        framework=Framework.TENSORFLOW,
        unseen=True,
    ),
    Case(
        name="Keras CNN on TensorFlow, SGD, fp32",
        model="keras_cnn",
        sizes=_sizes(optimizer="sgd", blocks=8, channels=32, side=64, batch=64),
        kind=ModelKind.CONVOLUTIONAL,
        framework=Framework.TENSORFLOW,
        unseen=True,
    ),
)


def measure(runs: int) -> list[Row]:
    """The estimate, as a part of what was measured, of each model."""
    rows = []
    for case in CASES:
        found = [measured(case) for _ in range(runs)]
        said = estimate(case.work(found[0]), is_gpu=False)
        ratios = [said.expected_bytes / one["peak_bytes"] for one in found]
        peak = found[0]["peak_bytes"]
        within = "within" if said.low_bytes <= peak <= said.high_bytes else "OUT OF"
        rows.append(
            Row(
                what=f"memory of {case.name}{' (unseen)' if case.unseen else ''}, {within} its range",
                unit="MB",
                samples=[one["peak_bytes"] / 1e6 for one in found],
                peer="that is the estimate",
                ratio=sum(ratios) / len(ratios),
            )
        )
    return rows


def measured(case: Case) -> Mapping[str, Any]:
    """Train it in a process of its own. Raises RuntimeError if that fails."""
    command = [sys.executable, "-m", "benchmarks.memory_child", json.dumps({"model": case.model, **case.sizes})]
    environment = {**os.environ, **_MAPPED, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{case.name}: {done.stderr[-2000:]}")
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
