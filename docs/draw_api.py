"""Draws the end of docs/api.md: every route and type, from the OpenAPI that the server serves. Its head is written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.markdown import table
from stoker.api.app import routes
from stoker.api.openapi import TAGS, describe_api

HEAD = Path(__file__).with_name("api.md")
MARK = "<!-- what follows is drawn by `docs/draw_api.py` from the code; do not edit it, but run `make docs` -->"


def api() -> str:
    """docs/api.md: its head as it is, and the rest from the OpenAPI."""
    described = describe_api(routes(None))  # type: ignore[arg-type]  # nothing is asked of the services
    parts = [HEAD.read_text(encoding="utf-8").partition(MARK)[0].strip(), MARK, "## Routes"]
    for tag, about in TAGS.items():
        parts += [f"### {tag.capitalize()}", about, *_routes(described, tag)]
    return "\n\n".join([*parts, "## Types", *_types(described["components"]["schemas"])]) + "\n"


def _routes(described: dict[str, Any], tag: str) -> Iterator[str]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if operation["tags"] == [tag]:
                yield f"#### {method.upper()} {path.removeprefix('/stoker/v1')}"
                yield from _operation(operation)


def _operation(operation: dict[str, Any]) -> Iterator[str]:
    summary, description = operation["summary"] + ".", operation["description"]
    yield summary if description == summary else f"{summary} {_unwrapped(description)}"
    rows = [
        [f"`{p['name']}`", p["in"], _type(p["schema"]), _shown(p["schema"].get("default")), p["description"]]
        for p in operation.get("parameters", [])
        if p["name"] not in ("project", "name") or p["in"] != "path"
    ]
    if rows:
        yield table(["Parameter", "In", "Type", "Default", "What it is"], rows)
    body = operation.get("requestBody")
    if body:
        (kind,) = body["content"].values()
        yield f"Body: {body['description']}"
        if "properties" in kind["schema"]:
            yield table(["Field", "Type", "Default", "What it is"], _fields(kind["schema"]))
    answer = operation["responses"]["200"]
    for media, content in answer.get("content", {}).items():
        what = _type(content["schema"]) if "]" in _type(content["schema"]) else answer["description"].rstrip(".")
        yield f"Answers: {what} (`{media}`)."
        if media == "application/json" and "$ref" in content["schema"]:
            yield f"```json\n{json.dumps(content['example'], indent=2, ensure_ascii=False)}\n```"
    refusals = [status for status in operation["responses"] if status not in ("200", "401", "403", "421")]
    yield f"Refusals of its own: {', '.join(refusals)}." if refusals else "It has no refusals of its own."


def _unwrapped(text: str) -> str:
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _fields(schema: dict[str, Any]) -> Iterator[list[str]]:
    for name, field in schema["properties"].items():
        required = name in schema.get("required", [])
        default = "required" if required else _shown(field.get("default"))
        yield [f"`{name}`", _type(field), default, field.get("description", "")]


def _types(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f"### {name}"
        yield _unwrapped(schema["description"])
        rows = [
            [
                f"`{field}`",
                _type(part) + ("" if field in schema.get("required", []) else ", may be missing"),
                part.get("description", ""),
            ]
            for field, part in schema["properties"].items()
        ]
        yield table(["Field", "Type", "What it is"], rows)


def _type(schema: dict[str, Any]) -> str:
    """A type in words, with a link to those that are drawn below."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"] if choice != "")
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("format") == "binary":
        return "bytes"
    words = {"object": "table", "string": "text", "number": "number", "integer": "integer", "boolean": "true or false"}
    return words.get(schema.get("type", ""), str(schema.get("type", "anything")))


def _shown(default: Any) -> str:
    return "" if default in (None, "", {}, 1 << 62) else f"`{json.dumps(default)}`"
