"""Rules over steps: what each replica's program tells of its own time, and what its processes used.

Thresholds: training is good below a tenth of its time spent waiting for data and input-bound from a third on (tf.data, VLDB
2021; MLPerf Storage passes at 90 % utilisation); a straggler is below three quarters of its peers' speed (NVIDIA's resiliency
extension; here 1.25 times their time, of what each does by itself).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from stoker.insight.training_steps import Progress, Window, share

from . import advice
from .evidence import Confidence, Evidence, Finding, Source

INPUT_WARNING, INPUT_SEVERE = 0.1, 1 / 3
SLOW_FACTOR = 1.25
_SLOW_SECONDS = 0.002  # what is below it is chance
SAVING_SHARE = 0.1
TOGETHER_SHARE = 0.3
_BUSY_CPUS = 0.9
_READS_MUCH = 20e6  # bytes a second
SHORT_SECONDS, SMALL_BATCH = 0.005, 8
"""A step of so few examples that is over so soon is mostly the framework's own work around it."""


def not_numbers(found: Evidence) -> Iterator[Finding]:
    """A value that is none: what follows is lost time."""
    for progress in found.training:
        for name, value in progress.values.items():
            if not math.isfinite(value):
                since = next(w.step for w in progress.windows if not math.isfinite(w.values.get(name, 0.0)))
                yield Finding(
                    code="NOT_A_NUMBER",
                    replica=progress.replica,
                    text=f"{name} of {progress.replica} is {value}, since step {since} or shortly before",
                    action="lower the learning rate, clip gradients, or look for zeros that are divided by and logarithms",
                    evidence=(f"{name} = {value} at step {since}",),
                )
                return


def hangs(found: Evidence) -> Iterator[Finding]:
    """Standing still."""
    for replica, seconds in found.quiet.items():
        yield Finding(
            code="HANGS",
            replica=replica,
            text=f"{replica} has stood still for {seconds:.0f} s",
            action="see what each of its processes does: stoker profile JOB",
            evidence=("no step, no output and no checkpoint for longer than --hang-timeout",),
        )
        return


def waits_for_data(found: Evidence) -> Iterator[Finding]:
    """The GPU, or the processor, has nothing to do until the next batch is there."""
    shares: dict[str, tuple[float, Progress, Window]] = {}
    for progress in found.training:
        window = found.steady(progress)
        part = share(window.waited, window) if window is not None else None
        if part is not None and window is not None:
            shares[progress.replica] = part, progress, window
    if not shares:
        return
    part, progress, window = max(shares.values(), key=lambda each: each[0])
    if part < INPUT_WARNING:
        return
    use = found.uses.get(progress.replica)
    evidence = [f"{100 * part:.0f} % of {window.seconds:.0f} s and {window.steps} steps was spent waiting for data"]
    action = "read by several workers and ahead of time, prepare the data once and keep it in large files"
    change = advice.read_ahead(progress.framework, use.of_cpus if use else 8)
    if progress.loader_workers:
        evidence.append(f"{progress.loader_workers} workers read already")
    if use is not None:
        evidence.append(f"its processes use {use.cpus:.1f} of {use.of_cpus} processors")
        if use.cpus >= _BUSY_CPUS * use.of_cpus:
            action = "its processors are all busy: prepare the data once, or ask for more vCPUs for each GPU"
            change = advice.prepare_once(progress.framework)
        elif use.read_bytes_per_second >= _READS_MUCH:
            evidence.append(f"it reads {use.read_bytes_per_second / 1e6:.0f} MB/s from disk")
            action = "it waits for the disk: keep the data on a local one, in large files, and read ahead"
    yield Finding(
        code="INPUT_BOUND" if part >= INPUT_SEVERE else "WAITS_FOR_DATA",
        replica=progress.replica,
        text=f"{progress.replica} waits for data {100 * part:.0f} % of its time; without that, it would be"
        f" {1 / max(0.01, 1 - part):.1f} times as quick",
        action=action,
        source=Source.BOTH if use is not None else Source.STEPS,
        confidence=found.confidence(window),
        evidence=tuple(evidence),
        change=change,
    )


def is_slow(found: Evidence) -> Iterator[Finding]:
    """The one that the others wait for. Those in step take equally long; what differs is what each does by itself."""
    own: dict[str, tuple[float, Window]] = {}
    for progress in found.training:
        window = found.steady(progress)
        if window is not None:
            own[progress.replica] = (window.seconds - (window.together or 0.0)) / window.steps, window
    if len(own) < 2:
        return
    slowest = max(own, key=lambda name: own[name][0])
    its, window = own[slowest]
    others = median(seconds for name, (seconds, _) in own.items() if name != slowest)
    if its < SLOW_FACTOR * others or its - others < _SLOW_SECONDS:
        return
    waits = (window.waited or 0.0) / max(1, window.steps)
    because = ", most of the difference waiting for data" if waits > (its - others) / 2 else ""
    yield Finding(
        code="STRAGGLER",
        replica=slowest,
        text=f"{slowest} takes {milliseconds(its)} of its own for a step, the others {milliseconds(others)}{because}",
        action="look at its machine (stoker nodes list), and whether its share of the data is harder than the others'",
        confidence=found.confidence(window),
        evidence=tuple(
            f"{name}: {milliseconds(seconds)} a step by itself" for name, (seconds, _) in sorted(own.items())[:9]
        ),
    )


def waits_for_others(found: Evidence) -> Iterator[Finding]:
    """Every replica spends much of a step on exchanging gradients."""
    windows = [found.steady(progress) for progress in found.training]
    known = [window for window in windows if window is not None]
    parts = [share(window.together, window) for window in known]
    if len(known) < 2 or any(part is None for part in parts):
        return
    least = min(part for part in parts if part is not None)
    if least < TOGETHER_SHARE:
        return
    framework = found.training[0].framework
    yield Finding(
        code="COMMUNICATION_BOUND",
        text=f"every replica spends at least {100 * least:.0f} % of a step exchanging gradients with the others",
        action="more work a step (a larger batch, or gradients added up over several), gradients in bf16, fewer or"
        " nearer machines",
        confidence=found.confidence(known[0]),
        evidence=tuple(
            f"{p.replica}: {100 * (part or 0):.0f} %" for p, part in zip(found.training, parts, strict=False)
        )[:9],
        change=advice.larger_batch(framework, _batch(known[0]), 4.0),
    )


def saves_much(found: Evidence) -> Iterator[Finding]:
    """Training stands still for checkpoints."""
    for progress in found.training:
        window = found.steady(progress)
        whole = 0.0 if window is None else window.seconds + window.aside
        if window is None or window.saving < SAVING_SHARE * whole:
            continue
        yield Finding(
            code="SAVES_TOO_OFTEN",
            replica=progress.replica,
            text=f"{progress.replica} stands still for checkpoints {100 * window.saving / whole:.0f} % of its time",
            action="save less often: --checkpoints auto chooses by what a checkpoint costs",
            confidence=found.confidence(window),
            evidence=(f"{window.saving:.1f} s of {whole:.0f} s",),
        )
        return


def steps_are_short(found: Evidence) -> Iterator[Finding]:
    """So little is done in a step that most of it is the framework's own work around it."""
    for progress in found.training:
        window = found.steady(progress)
        batch = 0 if window is None else _batch(window)
        if window is None or not 0 < batch <= SMALL_BATCH:
            continue
        own = (window.seconds - (window.together or 0.0)) / window.steps
        if own >= SHORT_SECONDS:
            continue
        yield Finding(
            code="TINY_STEPS",
            replica=progress.replica,
            text=f"a step of {progress.replica} trains {batch} example{'s' if batch > 1 else ''} in {milliseconds(own)}:"
            " most of that is the framework's own work around it",
            action="a larger batch makes each step do more; on a GPU also compile the model",
            confidence=Confidence.MEDIUM,
            evidence=(f"{batch} examples and {milliseconds(own)} a step, over {window.steps} steps",),
            change=advice.larger_batch(progress.framework, batch, 16.0),
        )
        return


def _batch(window: Window) -> int:
    return round(window.examples / window.steps) if window.steps else 0


def milliseconds(seconds: float) -> str:
    """A short time."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"
