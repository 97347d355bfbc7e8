"""Trains one small real model for a few steps, and prints as JSON how much memory that took beyond what was there before.

`python -m benchmarks.memory_child NAME`. The peak is the kernel's (VmHWM of /proc/self/status, set back after a first small step,
so that the framework's own code and threads are there already). Large blocks are mapped one by one (see `memory_estimates`), so
that what is freed goes back at once.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = 3


def _memory_bytes(name: str) -> int:
    """A line of /proc/self/status: VmRSS, VmHWM."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def _begin() -> int:
    """Forget the peak so far; what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory_bytes("VmRSS")


def _tell(base: int, parameters: int, activations: float = 0.0) -> None:
    peak = _memory_bytes("VmHWM") - base
    print(json.dumps({"parameters": parameters, "peak_bytes": peak, "activations": activations}))


def _torch(
    make: Callable[[Any], Any],
    inputs: Callable[[Any], Any],
    loss_of: Callable[[Any, Any, Any], Any],
    optimizer: str,
    precision: str,
    count_outputs: bool = False,
) -> None:
    import torch

    small = torch.nn.Linear(8, 8)
    small(torch.randn(4, 8)).sum().backward()
    torch.optim.Adam(small.parameters()).step()
    base = _begin()
    model = make(torch)
    if precision == "pure-bf16":
        model = model.bfloat16()
    made: dict[str, Any] = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=1e-4),
        "adamw": lambda p: torch.optim.AdamW(p, lr=1e-4),
    }
    steps = made[optimizer](model.parameters())
    data = inputs(torch)
    counted = _counted(torch, model, data) if count_outputs else 0.0
    for _ in range(STEPS):
        steps.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            loss = loss_of(torch, model, data)
        loss.backward()
        steps.step()
    _tell(base, sum(p.numel() for p in model.parameters()), counted)


def _counted(torch: Any, model: Any, data: Any) -> float:
    """The outputs of all layers that have weights, for an example: what docs/choose.md tells people to count."""
    seen = 0

    def hear(_module: Any, _inputs: Any, output: Any) -> None:
        nonlocal seen
        seen += output.numel()

    hooks = [m.register_forward_hook(hear) for m in model.modules() if list(m.parameters(recurse=False))]
    with torch.no_grad():
        model(data[:1])
    for hook in hooks:
        hook.remove()
    return float(seen)


def _mlp(torch: Any, width: int, layers: int) -> Any:
    made = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*made)


def _square(_torch: Any, model: Any, data: Any) -> Any:
    return model(data).square().mean()


def torch_mlp(optimizer: str, precision: str, width: int, layers: int, batch: int) -> None:
    """Fully connected layers."""

    def inputs(torch: Any) -> Any:
        kind = torch.bfloat16 if precision == "pure-bf16" else torch.float32
        return torch.randn(batch, width, dtype=kind)

    _torch(lambda torch: _mlp(torch, width, layers), inputs, _square, optimizer, precision)


def torch_cnn(optimizer: str, precision: str, blocks: int, channels: int, side: int, batch: int) -> None:
    """Convolutions with batch norms; every second one halves the image and doubles the channels."""

    def make(torch: Any) -> Any:
        nn, made, before = torch.nn, [], 3
        for block in range(blocks):
            after = channels * 2 ** (block // 2)
            stride = 2 if block and block % 2 == 0 else 1
            made += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
            before = after
        return nn.Sequential(*made, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))

    _torch(make, lambda torch: torch.randn(batch, 3, side, side), _square, optimizer, precision, True)


def torch_transformer(
    optimizer: str, precision: str, width: int, layers: int, sequence: int, batch: int, vocabulary: int
) -> None:
    """Blocks as of GPT-2, without dropout; with a vocabulary, a language model."""

    def make(torch: Any) -> Any:
        nn, heads = torch.nn, width // 64

        class Block(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x: Any) -> Any:
                b, s, _ = x.shape
                parts = self.query_key_value(self.norm_1(x)).view(b, s, 3, heads, 64).permute(2, 0, 3, 1, 4)
                seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
                x = x + self.out(seen.transpose(1, 2).reshape(b, s, width))
                return x + self.narrow(nn.functional.gelu(self.wide(self.norm_2(x))))

        ends = [nn.Linear(width, vocabulary, bias=False)] if vocabulary else []
        begins = [nn.Embedding(vocabulary, width)] if vocabulary else []
        return nn.Sequential(*begins, *(Block() for _ in range(layers)), nn.LayerNorm(width), *ends)

    def inputs(torch: Any) -> Any:
        if vocabulary:
            return torch.randint(vocabulary, (batch, sequence))
        return torch.randn(batch, sequence, width)

    def loss(torch: Any, model: Any, data: Any) -> Any:
        if not vocabulary:
            return _square(torch, model, data)
        logits = model(data)
        return torch.nn.functional.cross_entropy(logits.view(-1, vocabulary), data.view(-1))

    _torch(make, inputs, loss, optimizer, precision)


def torch_lstm(optimizer: str, precision: str, width: int, layers: int, sequence: int, batch: int) -> None:
    """An LSTM of several layers."""
    _torch(
        lambda torch: torch.nn.LSTM(width, width, layers, batch_first=True),
        lambda torch: torch.randn(batch, sequence, width),
        lambda _torch, model, data: model(data)[0].square().mean(),
        optimizer,
        precision,
    )


def _jax(make: Callable[[Any], Any], inputs: Callable[[Any], Any], forward: Callable[..., Any], optimizer: str) -> None:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, data: Any) -> Any:
        return jnp.mean(jnp.square(forward(jax, weights, data)))

    def step(weights: Any, states: Any, data: Any) -> Any:
        slopes = jax.grad(loss)(weights, data)
        if optimizer == "sgd":
            return jax.tree.map(lambda w, g: w - 0.01 * g, weights, slopes), states
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, states[0], slopes)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, states[1], slopes)
        new = jax.tree.map(lambda w, m, v: w - 1e-4 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
        return new, (first, second)

    jax.jit(lambda x: jnp.mean(x @ x))(jnp.ones((8, 8))).block_until_ready()
    weights = make(jax)
    data = inputs(jax)
    states = () if optimizer == "sgd" else tuple(jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    run = jax.jit(step).lower(weights, states, data).compile()  # what compiling takes is not of the training
    held = sum(leaf.nbytes for leaf in jax.tree.leaves((weights, states)))
    base = _begin() - held
    for _ in range(STEPS):
        weights, states = run(weights, states, data)
        jax.block_until_ready(weights)
    _tell(base, sum(leaf.size for leaf in jax.tree.leaves(weights)))


def jax_mlp(optimizer: str, width: int, layers: int, batch: int) -> None:
    """Fully connected layers."""

    def make(jax: Any) -> Any:
        return [0.02 * jax.random.normal(jax.random.key(n), (width, width)) for n in range(layers)]

    def forward(jax: Any, weights: Any, data: Any) -> Any:
        for weight in weights:
            data = jax.nn.relu(data @ weight)
        return data

    _jax(make, lambda jax: jax.numpy.ones((batch, width)), forward, optimizer)


def jax_transformer(optimizer: str, width: int, layers: int, sequence: int, batch: int) -> None:
    """Blocks whose attention keeps its scores."""
    shapes = {
        "qkv": (width, 3 * width),
        "out": (width, width),
        "wide": (width, 4 * width),
        "narrow": (4 * width, width),
    }
    heads = width // 64

    def make(jax: Any) -> Any:
        return [
            {name: 0.02 * jax.random.normal(jax.random.key(n), shape) for name, shape in shapes.items()}
            for n in range(layers)
        ]

    def normed(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-5) ** 0.5

    def forward(jax: Any, weights: Any, x: Any) -> Any:
        for layer in weights:
            parts = (normed(x) @ layer["qkv"]).reshape(batch, sequence, 3, heads, 64)
            query, key, value = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
            scores = jax.nn.softmax(jax.numpy.einsum("bqhd,bkhd->bhqk", query, key) / 8.0)
            seen = jax.numpy.einsum("bhqk,bkhd->bqhd", scores, value).reshape(batch, sequence, width)
            x = x + seen @ layer["out"]
            x = x + jax.nn.gelu(normed(x) @ layer["wide"]) @ layer["narrow"]
        return x

    _jax(make, lambda jax: jax.random.normal(jax.random.key(99), (batch, sequence, width)), forward, optimizer)


def _keras(make: Callable[[Any], Any], inputs: Any, optimizer: str) -> None:
    import keras

    small = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8)])
    small.compile(optimizer, "mse")
    small.fit(inputs[:4].reshape(4, -1)[:, :8], inputs[:4].reshape(4, -1)[:, :8], verbose=0)
    base = _begin() - inputs.nbytes
    model = make(keras)
    model.compile(optimizer, "mse")
    layers = [layer for layer in model.layers if layer.weights]
    outputs = [math.prod(layer.output.shape[1:]) for layer in layers]
    wanted = inputs[:, :1].reshape(len(inputs), -1)[:, : model.output_shape[-1]]
    model.fit(inputs, wanted, batch_size=len(inputs), epochs=STEPS, verbose=0)
    _tell(base, model.count_params(), float(sum(outputs)) if len(inputs.shape) > 2 else 0.0)


def keras_mlp(optimizer: str, width: int, layers: int, batch: int) -> None:
    """Fully connected layers."""
    import numpy as np

    def make(keras: Any) -> Any:
        made = [keras.layers.Dense(width, activation="relu") for _ in range(layers)]
        return keras.Sequential([keras.Input((width,)), *made])

    _keras(make, np.ones((batch, width), "float32"), optimizer)


def keras_cnn(optimizer: str, blocks: int, channels: int, side: int, batch: int) -> None:
    """As `torch_cnn`."""
    import numpy as np

    def make(keras: Any) -> Any:
        layers, made = keras.layers, []
        for block in range(blocks):
            stride = 2 if block and block % 2 == 0 else 1
            after = channels * 2 ** (block // 2)
            made += [
                layers.Conv2D(after, 3, stride, "same", use_bias=False),
                layers.BatchNormalization(),
                layers.ReLU(),
            ]
        ends = [layers.GlobalAveragePooling2D(), layers.Dense(3)]
        return keras.Sequential([keras.Input((side, side, 3)), *made, *ends])

    _keras(make, np.ones((batch, side, side, 3), "float32"), optimizer)


def main(asked: str) -> None:
    """Train what a JSON object names: {"model": …, and its sizes}."""
    sizes = json.loads(asked)
    globals()[sizes.pop("model")](**sizes)


if __name__ == "__main__":
    main(sys.argv[1])
