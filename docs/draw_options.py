"""docs/options.md, and the types of the SDK's keywords, from core/options.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docs.markdown import page, table
from stoker.core.options import OPTIONS, SCHEDULING, TRAINING, Choice, Count, Interval, Option, Switch, Text, Time

_TYPES = {Text: "str", Choice: "str", Switch: "bool", Count: "int", Time: "float", Interval: "str"}


def options() -> str:
    """docs/options.md."""
    return page(
        "Options of a job",
        "What may be asked of any job: by a flag of `stoker run`, `jobs submit training`, `rehearse`, `check`, `drill` and"
        " `probe`; by a keyword of [`stoker.submit`](sdk.md) or a field of [`jobs:run`](api.md), which are called alike; and,"
        " in a job file of AI Platform v1 or Vertex AI, by a label. Labels are read when the job is submitted; only"
        " `stoker-resumable` counts also when it is changed later. A label holds no point: `90m`, not `1.5h`.",
        "## Whose turn it is, and what happens when it fails",
        _table(SCHEDULING),
        "More: [site.md](site.md#what-a-job-says) of the first four, [running.md](running.md#when-it-hangs) of the others.",
        "## How it trains, without a change to the program",
        _table(TRAINING),
        "The program finds each in the variable of its environment; [frameworks.md](frameworks.md) tells what follows from it.",
    )


def job_options() -> str:
    """client/job_options.py."""
    return "\n".join(_typed_lines()) + "\n"


def _table(some: Sequence[Option]) -> str:
    return table(
        ["keyword, field", "flag", "label", "values", "default", "what it does", "variable"],
        [
            [f"`{o.name}`", f"`{o.spelling}`", _label(o), _values(o), o.default_words, o.help, _code(o.variable)]
            for o in some
        ],
    )


def _label(option: Option) -> str:
    return _code(option.label) or "`scheduling.priority`, a field"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _values(option: Option) -> str:
    match option.kind:
        case Choice(words):
            return ", ".join(f"`{word}`" for word in words)
        case Switch():
            return "`true`, `false`"
        case Count(most):
            return f"0 to {most}"
        case Time():
            return "a time, `30m`; as a keyword in seconds"
        case Interval():
            return "`auto`, `none`, a time"
        case _:
            return "a name"


def _typed_lines() -> Iterator[str]:
    yield '"""The options of a job as keywords of `stoker.submit`. Drawn by `make docs` from core/options.py."""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    yield "from typing import TypedDict"
    yield ""
    yield ""
    yield "class JobOptions(TypedDict, total=False):"
    yield '    """What may be asked of any job; docs/options.md tells the same with flags and labels."""'
    for option in OPTIONS:
        default = f" Without it: {option.default_words}." if option.default_words else ""
        yield ""
        yield f"    {option.name}: {_TYPES[type(option.kind)]} | None"
        yield f'    """{option.help}{default}"""'
