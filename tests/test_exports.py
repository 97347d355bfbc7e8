"""What Stoker shows to the outside is there: every member of every open set, every verb, the entry point, the packed files."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

import stoker
from stoker.alerts.channel import Channel
from stoker.cli.main import OF_JOBS, VERBS, command_of
from stoker.core.errors import NotFound
from stoker.engines.base import Engine
from stoker.engines.ray.clusters.base import Provider
from stoker.gpu.driver import Driver
from stoker.kinds.base import Kind
from stoker.registry import MEMBERS, load, names
from stoker.scheduling.base import Placer, Policy

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "stoker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

PROTOCOLS = {
    "engines": Engine,
    "policies": Policy,
    "placers": Placer,
    "kinds": Kind,
    "drivers": Driver,
    "clusters": Provider,
    "channels": Channel,
}
FOLDERS = {
    "engines": "engines",
    "policies": "scheduling/policies",
    "placers": "scheduling/placers",
    "kinds": "kinds",
    "dialects": "api/dialects",
    "drivers": "gpu/drivers",
    "clusters": "engines/ray/clusters",
    "channels": "alerts/channels",
}
NO_MEMBERS = {"__init__", "base", "status", "virtual"}  # the latter two serve several engines
NO_MEMBERS |= {"instances", "launch", "node_types", "place", "text"}  # these serve several clusters
EVERY_MEMBER = [(group, name) for group in MEMBERS for name in MEMBERS[group]]


@pytest.mark.parametrize(("group", "name"), EVERY_MEMBER, ids=lambda value: str(value))
def test_every_member_can_be_loaded(group: str, name: str) -> None:
    member = load(group, name)
    assert member is not None
    if group in PROTOCOLS:
        assert inspect.isclass(member) and not missing(member, PROTOCOLS[group])


def missing(member: type, protocol: type) -> list[str]:
    """The methods of a Protocol that a member lacks, or has with other parameters."""
    wrong = []
    for name, wanted in inspect.getmembers(protocol, inspect.isfunction):
        if name.startswith("_"):
            continue
        found = getattr(member, name, None)
        if found is None or list(inspect.signature(found).parameters) != list(inspect.signature(wanted).parameters):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("group", FOLDERS)
def test_no_member_is_forgotten(group: str) -> None:
    """A file of an open set that the registry does not name is never reached."""
    folder = SOURCE / FOLDERS[group]
    found = {p.stem for p in folder.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - NO_MEMBERS
    named = {target.partition(":")[0].split(".")[-2:][-1] for target in MEMBERS[group].values()}
    named |= {target.partition(":")[0].split(".")[-2] for target in MEMBERS[group].values()}
    assert found <= named


def test_an_unknown_member_is_told_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="there are fake, local"):
        load("engines", "nomad")
    assert names("policies") == sorted(names("policies"))


def test_every_file_of_verbs_is_a_verb() -> None:
    assert {p.stem for p in (SOURCE / "cli" / "verbs").glob("*.py")} - {"__init__"} == VERBS.keys() - OF_JOBS


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_command_with_help(verb: str) -> None:
    command: Any = command_of(verb)
    assert isinstance(command, click.Command) and command.name == verb
    for words, found in every_command(command, (verb,)):
        assert found.help, f"stoker {' '.join(words)} has no help"
        for option in found.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, f"stoker {' '.join(words)} {option.opts[0]} has no help"


def every_command(command: click.Command, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, each with the words that call it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [(words, command), *(one for sub in below for one in every_command(sub, (*words, str(sub.name))))]


def test_the_entry_point_is_there() -> None:
    module, _, name = PROJECT["scripts"]["stoker"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_version_is_in_the_changelog() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", stoker.__version__)
    assert f"## {stoker.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_used_and_has_a_reason() -> None:
    """docs/decisions/0001 says why each is there."""
    why = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text().lower()
    listed = [re.split(r"[\[>=<; ]", line)[0].lower() for line in PROJECT["dependencies"]]
    assert not [name for name in listed if f"`{name}`" not in why]
    source = "\n".join(file.read_text() for file in SOURCE.rglob("*.py"))
    imported = {
        "google-crc32c": "google_crc32c",
        "prometheus-client": "prometheus_client",
        "nvidia-ml-py": "pynvml",
        "pyyaml": "yaml",
    }
    # As programs of their own, or by name.
    run = {
        "httptools": "httptools_impl import",
        "setuptools": "from setuptools import",
        "uv": 'with_name("uv")',
        "py-spy": '"py-spy"',
    }
    for name in listed:
        used = run.get(name) or rf"^\s*(from|import) {imported.get(name, name)}\b"
        assert re.search(re.escape(used) if name in run else used, source, re.MULTILINE), f"{name} is not used"


def test_what_is_not_python_is_packed() -> None:
    """Data that the code opens by name must come along in the wheel."""
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for file in SOURCE.rglob("*"):
        if file.is_file() and file.suffix not in (".py", ".pyc"):
            folder = next(f for f in file.parents if (f / "__init__.py").exists())
            package = ".".join(folder.relative_to(SOURCE.parent).parts)
            name = file.relative_to(folder)
            assert any(name.match(pattern) for pattern in packed.get(package, [])), f"{file} is not in the wheel"
