"""What is wrong with a text that is no YAML, in words for people: the line, and the likely mend."""

from __future__ import annotations

import re

import yaml

_KEY_ALONE = re.compile(r"^\s*(?:- )?([A-Za-z_][\w-]*)(?:\s+([^\s:#][^:#]*))?\s*$")
_PAIR = re.compile(r"^\s*(?:- )?[\w-]+:\s*\S")


def explained(error: yaml.YAMLError, text: str) -> str:
    """The mistake that a parser has found. Where none of the usual ones fits, what the parser says."""
    mark, problem = getattr(error, "problem_mark", None), str(getattr(error, "problem", None) or error)
    if mark is None:
        return problem
    lines, number = text.splitlines(), int(mark.line)
    return f"line {min(number, max(0, len(lines) - 1)) + 1}: " + (_known(error, problem, lines, number) or problem)


def _known(error: yaml.YAMLError, problem: str, lines: list[str], number: int) -> str:
    line = lines[number] if number < len(lines) else ""
    before = next((n for n in range(min(number, len(lines)) - 1, -1, -1) if lines[n].strip()), None)
    context = getattr(error, "context_mark", None)
    opened = int(context.line) + 1 if context is not None else 0
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab indents it, and YAML takes spaces only; write two spaces for each step"
    if "expected ',' or '}'" in problem or "expected ',' or ']'" in problem:
        bracket = problem.split("'")[3]
        return f"the bracket that line {opened} opens is not closed; a {bracket!r} is missing, or a comma"
    if "<stream end>" in problem:
        return "it ends where a value has to come; a bracket is not closed, or the value is missing"
    if "found unexpected end of stream" in problem or "found unexpected document" in problem:
        return f"the quote that line {opened} opens is not closed"
    for n in (number, before):
        alone = _KEY_ALONE.match(lines[n]) if n is not None and n < len(lines) else None
        if alone and ("mapping values" in problem or "':'" in problem):
            where = "" if n == number else f"the line before it, {lines[n or 0].strip()!r}, "
            return f"{where}has no ':' after its name; write {alone[1]}:{' ' + alone[2].strip() if alone[2] else ''}"
    if "mapping values are not allowed" in problem and before is not None:
        if _indent(line) > _indent(lines[before]) and _PAIR.match(lines[before]):
            return f"it is indented deeper than line {before + 1}, which has a value already; begin both in the same column"
        return "a second ':' in one value; put the value in quotes"
    if "expected <block end>" in problem or "did not find expected" in problem:
        return "it is indented unlike the lines that it belongs to; begin them all in the same column"
    return ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
