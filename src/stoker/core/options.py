"""A job's options: each is one row, read by every door (API, labels, flags, SDK), by the documentation, and by what uses it.

Two ways lead from a row to its use: `target` is a field of JobSpec, which the control plane reads; `variable` is set in the
environment of the program, where frameworks/ reads it. docs/add/option.md tells how one is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .durations import checkpoints_of, duration_of, seconds_of
from .job import RESUMABLE
from .spec import JobSpec, Retry

_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    def read(self, text: str) -> str:
        """The text itself."""
        return text

    def write(self, value: str) -> str:
        """The text itself."""
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words."""

    words: tuple[str, ...]

    def read(self, text: str) -> str:
        """One of the words. Raises ValueError."""
        if text not in self.words:
            raise ValueError(f"{text[:80]!r} is none of {', '.join(self.words)}")
        return text

    def write(self, value: str) -> str:
        """The word."""
        return value


@dataclass(frozen=True, slots=True)
class Switch:
    """Yes or no."""

    def read(self, text: str) -> bool:
        """`true` or `false`. Raises ValueError."""
        if text not in ("true", "false"):
            raise ValueError(f"{text[:80]!r} is neither true nor false")
        return text == "true"

    def write(self, value: bool) -> str:
        """`true` or `false`."""
        return str(value).lower()


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number from 0 to `most`."""

    most: int

    def read(self, text: str) -> int:
        """The number. Raises ValueError."""
        if not (text.isdecimal() and text.isascii() and len(text) < 20 and int(text) <= self.most):
            raise ValueError(f"{text[:80]!r} is not a number from 0 to {self.most}")
        return int(text)

    def write(self, value: int) -> str:
        """The digits of the number."""
        return str(value)


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds, which people write as `90s`, `30m`, `1h` or `7d`: at most `most_days`."""

    most_days: float = 10_000_000.0

    @property
    def most_seconds(self) -> float:
        """The longest."""
        return self.most_days * _DAY_SECONDS

    def read(self, text: str) -> float:
        """The seconds. Raises ValueError."""
        found = seconds_of(text)
        if found > self.most_seconds:
            raise ValueError(f"{text[:80]!r} is too long: at most {self.most_days:g}d")
        return found

    def write(self, value: float) -> str:
        """Whole seconds, as a label may hold them."""
        return duration_of(value)


@dataclass(frozen=True, slots=True)
class Interval:
    """How often something is done: `auto`, `none`, or a time."""

    def read(self, text: str) -> str:
        """`auto`, `none`, or the seconds as a text. Raises ValueError."""
        return checkpoints_of(text)

    def write(self, value: str) -> str:
        """The text itself."""
        return value


Kind = Text | Choice | Switch | Count | Time | Interval


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What may be asked of any job, in whichever dialect."""

    name: str  # in Stoker's API and in the SDK
    kind: Kind
    help: str  # one sentence
    example: Any
    default: Any = None  # what stands for: not asked for
    default_words: str = ""  # the same, as people are told it
    flag: str = ""  # without its dashes; empty: from the name
    label: str = ""  # in AI Platform v1 and Vertex AI; empty: they have a field for it
    target: str = ""  # where the control plane reads it in a JobSpec, dotted
    variable: str = ""  # or what the program finds it in
    convert: Callable[[Any], Any] = field(default=_same)  # from what was asked for to what the target holds

    @property
    def spelling(self) -> str:
        """The option's flag: `--hang-timeout`."""
        return f"--{self.flag or self.name.replace('_', '-')}"


SCHEDULING = (
    Option(
        name="queue",
        kind=Text(),
        help="The queue that it waits in.",
        example="research",
        default="default",
        default_words="default",
        label="stoker-queue",
        target="queue",
    ),
    Option(
        name="priority",
        kind=Count(1000),
        help="0 to 1000, greater first.",
        example=10,
        default=0,
        default_words="0",
        target="priority",
    ),
    Option(
        name="preemptible",
        kind=Switch(),
        help="It may be stopped for others at any time, and goes on later.",
        example=True,
        default=False,
        label="stoker-preemptible",
        target="preemptible",
    ),
    Option(
        name="resumable",
        kind=Switch(),
        help="Started again, it goes on from its checkpoint.",
        example=True,
        default=False,
        label=RESUMABLE,
        target="resumable",
    ),
    Option(
        name="hang_seconds",
        kind=Time(),
        help="Without output, beat and progress for so long it counts as hung; 0: never.",
        example=7200.0,
        default_words="as the site says",
        flag="hang-timeout",
        label="stoker-hang-timeout",
        target="limits.hang_seconds",
    ),
    Option(
        name="max_retries",
        kind=Count(1000),
        help="Try a failure that may pass N times more, however alike they are.",
        example=5,
        default_words="5 in place, 3 as a whole",
        label="stoker-max-retries",
        target="retry",
        convert=Retry.counted,
    ),
    Option(
        name="hold_seconds",
        kind=Time(7),
        help="When its program fails, keep its place for so long, such as 30m, for `stoker jobs shell`.",
        example=1800.0,
        default=0.0,
        flag="hold-on-failure",
        label="stoker-hold-on-failure",
        target="limits.hold_seconds",
    ),
)
"""Whose turn it is, and what happens when it fails."""

TRAINING = (
    Option(
        name="distribute",
        kind=Choice(("none", "auto", "mirrored", "multiworker", "ps", "ddp", "fsdp", "jax")),
        help="Train a script for one device on all GPUs and replicas; auto: as its framework does best.",
        example="auto",
        default="none",
        label="stoker-distribute",
        variable="STOKER_DISTRIBUTE",
    ),
    Option(
        name="precision",
        kind=Choice(("fp32", "bf16", "fp16")),
        help="What it computes in.",
        example="bf16",
        default="",
        default_words="its own",
        label="stoker-precision",
        variable="STOKER_PRECISION",
    ),
    Option(
        name="learning_rate_rule",
        kind=Choice(("none", "linear", "sqrt")),
        help="With --distribute: how the learning rate grows with the replicas (Keras).",
        example="linear",
        default="none",
        default_words="none",
        label="stoker-learning-rate-rule",
        variable="STOKER_LEARNING_RATE_RULE",
    ),
    Option(
        name="checkpoints",
        kind=Interval(),
        help="Save Keras' fit in the job directory so often, and go on from there when it is started again.",
        example="auto",
        default="none",
        label="stoker-checkpoints",
        variable="STOKER_CHECKPOINTS",
    ),
)
"""How a program trains, without a change to it: frameworks/ does it."""

OPTIONS = (*SCHEDULING, *TRAINING)
"""All of them."""


def with_options(spec: JobSpec, asked: Mapping[str, Any]) -> JobSpec:
    """The spec with what is asked for: values by the names of options. Those of None are left as the spec has them."""
    given = [(option, asked[option.name]) for option in OPTIONS if asked.get(option.name) is not None]
    limits = {o.target.partition(".")[2]: o.convert(value) for o, value in given if o.target.startswith("limits.")}
    rest = {o.target: o.convert(value) for o, value in given if o.target and "." not in o.target}
    variables = {o.variable: str(value) for o, value in given if o.variable and value not in (o.default, "")}
    program = replace(spec.program, variables={**spec.program.variables, **variables})
    return replace(spec, limits=replace(spec.limits, **limits), program=program, **rest)


def options_of(labels: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """What labels ask for, by the names of options; and what is wrong with them, by label."""
    found: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for option in OPTIONS:
        text = labels.get(option.label) if option.label else None
        if text is None or (not text and isinstance(option.kind, Text | Interval)):
            continue  # an empty name, or an empty time, asks for nothing
        try:
            found[option.name] = option.kind.read(text)
        except ValueError as error:
            problems[option.label] = str(error)
    return found, problems
