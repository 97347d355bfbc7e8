"""Whether `stoker diagnose` is right: real programs whose trouble is known, each run as a job; precision and recall.

None of these runs was used to set a threshold: those are published ones (docs/diagnose.md). A run is right if the first finding
is the one of its label, or if there is none where nothing is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.client.client import Client

from .measure import Row
from .server import PROJECT, Server

RUNS = 1
PROGRAMS = Path(__file__).parent / "labelled_programs"
_SECONDS = 8


@dataclass(frozen=True, slots=True)
class Labelled:
    """A program, and what is wrong with it: the codes that are right, an empty one where nothing is."""

    program: str
    kind: str
    number: float
    right: tuple[str, ...]
    workers: int = 0


DATA = ("INPUT_BOUND", "WAITS_FOR_DATA")
SLOW, TINY, FINE = ("STRAGGLER",), ("TINY_STEPS",), ("",)

LABELLED = (
    *(Labelled("torch_program", "sleeps", number, DATA) for number in (0.3, 0.6, 1.0, 2.0)),
    *(Labelled("torch_program", "augments", number, DATA) for number in (0.5, 1.0, 2.0)),
    *(Labelled("torch_program", "reads", number, DATA) for number in (1.0, 2.0)),
    *(Labelled("keras_program", "sleeps", number, DATA) for number in (1.0, 2.0)),
    *(Labelled("keras_program", "augments", number, DATA) for number in (1.0, 2.0)),
    *(Labelled("own_loop", "sleeps", number, DATA) for number in (1.0, 2.0)),
    *(Labelled("own_loop", "augments", number, DATA) for number in (1.0, 2.0)),
    *(Labelled("torch_program", "tiny", number, TINY) for number in (1, 2, 4)),
    *(Labelled("keras_program", "tiny", number, TINY) for number in (1, 4)),
    *(Labelled("torch_program", "straggles", number, SLOW, workers=1) for number in (1.0, 2.0, 4.0)),
    *(Labelled("torch_program", "saves", number, FINE) for number in (1.0, 3.0)),
    Labelled("own_loop", "saves", 1.0, FINE),
    *(Labelled("torch_program", "evaluates", number, FINE) for number in (1.0, 2.0, 4.0)),
    *(Labelled("keras_program", "evaluates", number, FINE) for number in (1.0, 2.0)),
    *(Labelled("torch_program", kind, 1.0, FINE) for kind in ("plain", "deep", "convolves", "workers")),
    *(Labelled("torch_program", "accumulates", number, FINE) for number in (2, 4)),
    *(Labelled("keras_program", kind, 1.0, FINE) for kind in ("plain", "adam", "arrays")),
    *(Labelled("own_loop", "plain", number, FINE) for number in (1.0, 2.0)),
    *(Labelled("torch_program", "deep", number, FINE, workers=1) for number in (1.0, 2.0)),
)


def measure(runs: int) -> Iterator[Row]:
    """The rows of this part: shares of the runs, each of which is a job."""
    precision, recall, healthy = [], [], []
    for _ in range(runs):
        with Server() as server:
            told = [(one, _first(server.client, one, number)) for number, one in enumerate(LABELLED)]
        said = [(one, code) for one, code in told if code]
        precision.append(sum(code in one.right for one, code in said) / len(said))
        ill = [(one, code) for one, code in told if one.right != FINE]
        recall.append(sum(code in one.right for one, code in ill) / len(ill))
        healthy.append(float(sum(bool(code) for one, code in told if one.right == FINE)))
    of = f"{len(LABELLED)} runs of programs whose trouble is known"
    yield Row(
        what=f"{of}: of what was said, so much is right (at least 95)", unit="%", samples=[100 * x for x in precision]
    )
    yield Row(
        what=f"{of}: of what was wrong, so much was found (at least 90)", unit="%", samples=[100 * x for x in recall]
    )
    yield Row(what=f"{of}: findings where nothing is wrong", unit="jobs", samples=healthy, budget=0.0)


def _first(client: Client, one: Labelled, number: int) -> str:
    """Run it; the code of the first finding, or nothing."""
    name = f"run_{number}_{one.kind}"
    source = (PROGRAMS / f"{one.program}.py").read_text(encoding="utf-8")
    options = {"workers": one.workers, "distribute": "ddp", "env": {"MOST_STEPS": "100"}} if one.workers else {}
    command = [sys.executable, "-c", source, one.kind, str(_SECONDS), f"{one.number:g}"]
    client.run(PROJECT, {"name": name, "command": command, **options})
    for event in client.stream(PROJECT, name, logs=False):
        if event["kind"] == "end" and event["state"] != "SUCCEEDED":
            raise RuntimeError(f"{name} {event['state']}: {event['message']}")
    found = client.findings(PROJECT, name)["findings"]
    code = str(found[0]["code"]) if found else ""
    verdict = "right" if code in one.right else f"not {' or '.join(one.right) or 'nothing'}"
    print(f"  {one.program} {one.kind} {one.number:g}: {code or 'nothing'}, {verdict}", file=sys.stderr, flush=True)
    return code
