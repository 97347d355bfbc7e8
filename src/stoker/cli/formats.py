"""gcloud's --format, as far as scripts use it: json, yaml, and value(field,other.field)."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from stoker.cli import show
from stoker.core.errors import BadSpec, Violation


def format_option(function: Any) -> Any:
    """`--format`."""
    return click.option("--format", "shape", help="json, yaml, or value(FIELD[,FIELD]).")(function)


def formatted(value: Any, shape: str) -> str:
    """The value in that form. Raises BadSpec for a form that we do not know."""
    if shape == "json":
        return json.dumps(value, indent=2)
    if shape == "yaml":
        import yaml

        return str(yaml.safe_dump(value, sort_keys=True, default_flow_style=False)).rstrip()
    match = re.fullmatch(r"value\(([\w.,\s\[\]-]+)\)", shape)
    if match is None:
        raise BadSpec([Violation("--format", f"{shape!r} is not json, yaml or value(FIELD)")])
    rows = value if isinstance(value, list) else [value]
    return "\n".join("\t".join(_pick(row, path.strip()) for path in match[1].split(",")) for row in rows)


def _pick(value: Any, path: str) -> str:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else click.unstyle(show.safe(value)) if isinstance(value, str) else json.dumps(value)
