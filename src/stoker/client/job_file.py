"""Reads config.yaml: a Job in YAML. Says where in the file each thing stands, and recognises the documents' mangled form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stoker.core.errors import BadSpec, NotReady, StokerError, Violation

from .yaml_mistakes import explained

MOST_BYTES = 1 << 20
MOST_NODES = 10_000
DEEPEST = 64
_TYPE_LINE = re.compile(r"^(\s*)(master|worker|parameterServer|evaluator)Type:\s*(\S+)")
_NO_FIELD = re.compile(r"has no field '([^']+)'")
_DANGLING = re.compile(r"^(\s+)(count|type):\s*(\S+)\s*$")


@dataclass(frozen=True, slots=True)
class JobFile:
    """A config.yaml that was read."""

    path: str
    body: dict[str, Any]
    root: yaml.Node | None

    def line(self, violation: Violation) -> int:
        """The line that a violation is about, or that of the nearest thing around it; 0 if nothing of it is in the file."""
        node, line = self.root, 0
        for name in _names(violation.field):
            found = _child(node, name)
            if found is None:
                break
            node, line = found
        misspelt = _NO_FIELD.search(violation.description)
        if misspelt:  # its path is that of the table where it does not belong
            line = (_child(node, misspelt[1]) or (None, line))[1]
        return line


def read_job_file(path: Path) -> JobFile:
    """Read a config.yaml. Raises BadSpec."""
    try:
        with open(path, "rb") as file:  # a pipe will do too
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise _bad(path, f"is larger than a job file may be, {MOST_BYTES >> 20} MiB")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise _bad(path, "no such file") from None
    except UnicodeDecodeError:
        raise _bad(path, "is not a text in UTF-8") from None
    except (OSError, ValueError) as error:
        raise _bad(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    mangled = _mangled(text)
    try:
        root = _compose(text, path)
        body = _Loader(text).get_single_data() if root is not None else {}
    except yaml.YAMLError as error:
        if mangled:
            raise BadSpec([Violation(str(path), mangled)], fix=_true_form(text)) from None
        raise _bad(path, explained(error, text)) from None
    except RecursionError:
        raise _bad(path, "is nested too deeply") from None
    except ValueError as error:
        raise _bad(path, str(error)) from None
    if mangled:
        raise BadSpec([Violation(str(path), mangled)], fix=_true_form(text))
    if body is None or root is None:
        raise BadSpec(
            [Violation(str(path), "is empty")], fix="a job file starts with `trainingInput:` (docs/examples.md)"
        )
    if not isinstance(body, dict):
        kind = "a list" if isinstance(body, list) else f"only {str(body)[:40]!r}"
        raise _bad(path, f"holds {kind}, not a table; a job file starts with `trainingInput:`")
    return JobFile(str(path), body, root)


def located(error: StokerError, file: JobFile | None) -> StokerError:
    """A refusal, each mistake with the line of the file that it comes from."""
    if file is None or not isinstance(error, BadSpec | NotReady):
        return error
    found = sorted(((_line_in(file, v), v) for v in error.violations), key=lambda pair: pair[0])
    violations = [Violation(f"{file.path}:{n} {v.field}" if n else v.field, v.description) for n, v in found]
    return type(error)(violations, fix=error.fix)


def _line_in(file: JobFile, violation: Violation) -> int:
    """The line of a field in the file; 0: it is of no line, such as what is wrong with a flag."""
    return 0 if violation.field.startswith("--") else file.line(violation)


class _Loader(yaml.SafeLoader):
    """YAML with what a job needs: dates, octals, fractions and the yes/no of old stay texts, so that 2.10 is not 2.1."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")),
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", re.compile(r"^(?:<<)$"), ["<"]),
):
    _Loader.add_implicit_resolver(_tag, _pattern, _first)


_Loader.yaml_constructors = {
    tag: how
    for tag, how in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
}
"""What has no place in JSON is refused where it is marked as such: `!!binary`, `!!set`, `!!timestamp`, …"""


def _compose(text: str, path: Path) -> yaml.Node | None:
    """The tree of the file, counted before anything walks it: an alias bomb is small until it is expanded."""
    depth = nodes = 0
    for event in yaml.parse(text, _Loader):
        nodes += 1
        if isinstance(event, yaml.AliasEvent):
            raise _bad(path, f"line {_line(event)}: aliases (*name) are not taken in job files; write it out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise _bad(path, f"is nested more than {DEEPEST} levels deep")
        if nodes > MOST_NODES:
            raise _bad(path, f"holds more than {MOST_NODES} values")
    root: yaml.Node | None = yaml.compose(text, _Loader)
    if twice := list(_duplicates(root, path)):
        raise BadSpec(twice)
    return root


def _duplicates(node: yaml.Node | None, path: Path) -> Iterator[Violation]:
    """Keys that stand twice in one table: YAML would take the last without a word."""
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), _line(key)
            if name in first:
                yield Violation(f"{path}:{line}", f"{name} stands here and at line {first[name]}: keep one of them")
            first.setdefault(name, line)
    parts = node.value if isinstance(node, yaml.SequenceNode) else ()
    for part in [v for _, v in node.value] if isinstance(node, yaml.MappingNode) else parts:
        yield from _duplicates(part, path)


def _names(field: str) -> list[str]:
    """The way to a field: `args[2]` → trainingInput, args, [2]; `job.labels.team` → labels, team."""
    names = re.sub(r"\[", ".[", field).split(".")
    return names[1:] if names[0] == "job" else ["trainingInput", *names]


def _child(node: yaml.Node | None, name: str) -> tuple[yaml.Node, int] | None:
    """The value of that name, or at that place in a list, and the line where it begins."""
    if isinstance(node, yaml.SequenceNode) and re.fullmatch(r"\[\d{1,6}\]", name):
        items = node.value[int(name[1:-1]) :][:1]
        return (items[0], _line(items[0])) if items else None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key.value, str) and _snake(key.value) == _snake(name):
                return value, _line(key)
    return None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _mangled(text: str) -> str:
    """The documents' printed example has lost `masterConfig:` and `acceleratorConfig:`: count and type dangle below a type."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = _TYPE_LINE.match(line)
        if found and number + 1 < len(lines):
            below = _DANGLING.match(lines[number + 1])
            if below and len(below[1]) > len(found[1]):
                lost = f"{found[2]}Config: / acceleratorConfig:"
                return f"line {number + 2}: {below[2]} hangs below {found[2]}Type; the lines `{lost}` above it are lost"
    return ""


def _true_form(text: str) -> str:
    """The text with the lost lines put back."""
    shown: list[str] = []
    role, indent, inside = "", "", False
    for line in text.splitlines():
        found, dangling = _TYPE_LINE.match(line), _DANGLING.match(line)
        if found:
            indent, role, inside = found[1], found[2], False
        if dangling and role and len(dangling[1]) > len(indent):
            if not inside:
                shown += [f"{indent}{role}Config:", f"{indent}  acceleratorConfig:"]
                inside = True
            shown.append(f"{indent}    {dangling[2]}: {dangling[3]}")
        else:
            shown.append(line)
    return "the true form is:\n" + "\n".join(shown)


def _line(thing: yaml.Node | yaml.Event) -> int:
    return thing.start_mark.line + 1 if thing.start_mark else 0


def _bad(path: Path, problem: str) -> BadSpec:
    return BadSpec([Violation(str(path), problem)])
