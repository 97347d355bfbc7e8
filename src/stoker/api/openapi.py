"""The description of Stoker's own API, as OpenAPI. FastAPI knows the routes; what it cannot know is added here.

Foreign dialects and the replicas' routes are not in it: those have contracts of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from stoker import __version__

PATH = "/stoker/v1/openapi.json"
ABOUT = """What AI Platform's API has no word for: nodes, plain commands, rehearsals, logs that can be taken up again, why a job
waits, what it took, its files, the server's settings. The command line and the Python SDK use nothing else.

Training jobs are submitted, cancelled and labelled through `/v1/projects/{project}/jobs`, as AI Platform Training v1 says."""
TAGS = {
    "server": "The server itself.",
    "tokens": "Who may use it.",
    "alerts": "Who is told of what.",
    "nodes": "The machines.",
    "costs": "Machines that are ordered when a job needs them, and what jobs have cost.",
    "queue": "Whose turn it is, and why.",
    "jobs": "What waits, runs and has run.",
    "logs": "What happens, as it happens: one JSON object a line.",
    "files": "Files of buckets, and those of a job.",
}
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "The text of the file `token` in the server's home, or a token that an admin has made.",
}
_Json = dict[str, Any]


def describe_api(app: FastAPI) -> _Json:
    """The description, made once."""
    if app.openapi_schema is None:
        found = get_openapi(title="Stoker", version=__version__, description=ABOUT, routes=app.routes)
        found["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
        found["security"] = [{"token": []}]
        found["components"] = {"schemas": _schemas(), "securitySchemes": {"token": _TOKEN}}
        for method, operation in _operations(found):
            _one_content(method, operation["responses"]["200"])
            _finish(operation, found["components"]["schemas"])
        app.openapi_schema = found
    return app.openapi_schema


def example_of(schema: _Json, schemas: _Json) -> Any:
    """An example of a schema, made of those of its fields."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "const" in schema:
        return schema["const"]
    for key in ("example", "default"):
        if key in schema:
            return schema[key]
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas)
    if schema.get("type") == "array":
        return [example_of(schema["items"], schemas)]
    return {name: example_of(part, schemas) for name, part in schema.get("properties", {}).items()}


def _schemas() -> _Json:
    """The types that the routes have declared, and those that they are made of."""
    from pydantic import TypeAdapter

    from .dialects.native.answers import DECLARED

    adapters = [(name, "serialization", TypeAdapter(kind)) for name, kind in sorted(DECLARED.items())]
    _, found = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas: _Json = found["$defs"]
    return dict(sorted(schemas.items()))


def _operations(found: _Json) -> Iterator[tuple[str, _Json]]:
    for methods in found["paths"].values():
        yield from methods.items()


def _one_content(method: str, answer: _Json) -> None:
    """FastAPI takes every answer for JSON: what was declared in another type is that alone, and an answer to HEAD is empty."""
    content = answer.get("content", {})
    if method == "head":
        content.clear()
    elif len(content) > 1:
        del content["application/json"]


def _finish(operation: _Json, schemas: _Json) -> None:
    """The first line of a docstring is a summary, its rest the description; a bad parameter is our 400; examples are whole."""
    summary, _, rest = operation["description"].partition("\n")
    operation["summary"], operation["description"] = summary.rstrip("."), rest.strip() or summary
    operation["responses"].pop("422", None)
    for answer in operation["responses"].values():
        for content in answer.get("content", {}).values():
            if "example" not in content:
                content["example"] = example_of(content["schema"], schemas)
