"""Draws `fields.md`: every field of the foreign messages, its rule, and where it goes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

from stoker.api.dialects.aiplatform_v1.training import TRAINING
from stoker.api.dialects.vertex_v1.custom_jobs import POOL, SPEC
from stoker.api.translation import Row

INTRODUCTION = """\
A foreign message becomes a job by tables of rows: a field, its rule, and its place in the JobSpec (`core/spec.py`).
This page is those tables, as the server reads them: `api/dialects/aiplatform_v1/training.py` and
`api/dialects/vertex_v1/custom_jobs.py`. Rules have the numbers of section 1.3 of the contract of
AI Platform v1. A field that goes nowhere is kept with the job and shown again, and has no effect here. Unknown fields are
refused.

`groups.chief` and its like are what one role gets; `groups.*` means all of them."""


def fields() -> str:
    """The page."""
    parts = [
        "# Fields of foreign messages",
        "<!-- Drawn by `make docs`. -->",
        INTRODUCTION,
        "## AI Platform v1: `trainingInput`",
        _table(TRAINING),
        "Beside it stand `jobId` (a letter, then letters, digits, underscores; at most 128; taken for good), `labels` (at most\n"
        "64; keys and values at most 63 of lower-case letters, digits, `_`, `-`; a key starts with a letter) and `etag` (for\n"
        "`patch`). `hyperparameters` and `predictionInput` are read in full and answered with 501: not served yet.",
        "Some labels are read when a job is submitted, in both dialects, for what they have no field for:\n"
        "[options of a job](options.md).",
        "## Vertex AI v1: `customJob.jobSpec`",
        _table(SPEC),
        "## Vertex AI v1: each of `workerPoolSpecs`",
        "The first pool is `groups.chief`, then `worker`, `ps`, `evaluator`.",
        _table(POOL),
        "Beside them stand `displayName` (1 to 128 characters), `labels` (as above, up to 64 characters) and\n"
        "`encryptionSpec.kmsKeyName` (kept).",
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> str:
    return "\n".join(["| field | rule | goes to |", "|---|---|---|", *_lines(rows)])


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        rule = (inspect.getdoc(row.rule) or "").splitlines()[0].replace("|", "\\|")
        yield f"| `{row.field}` | {rule} | {f'`{row.target}`' if row.target else 'kept'} |"
