"""What most verbs begin with: the settings, and a client of the server, which is started if nobody runs it yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.config import Config, read_config
from stoker.core.errors import NotFound, Unauthenticated, Unavailable

from . import show

if TYPE_CHECKING:
    from stoker.api.dialects.aiplatform_v1.jobs import SiteRules
    from stoker.client.client import Client

Command = TypeVar("Command", bound=Callable[..., Any])


@cache
def config() -> Config:
    """The settings of this process."""
    return read_config(os.environ, Path.cwd())


def client(*, start: bool = True) -> Client:
    """A client of the configured server, or of this home's own. `start`: bring it up if it does not run, and say so."""
    from stoker.client import embedded
    from stoker.client.client import Client

    settings = config()
    if settings["url"]:
        token = settings["token"]
        if not token and (settings.home / "token").exists():
            token = (settings.home / "token").read_text().strip()
        if not token:
            raise Unauthenticated(
                "STOKER_URL is set, but no token", fix="export STOKER_TOKEN=…, the text of the server's token file"
            )
        return Client(settings["url"], token)
    found = embedded.find(settings)
    if found is None:
        if not start:
            raise Unavailable("no server runs here", fix="start it: stoker up")
        found = embedded.start(settings)
        show.done(f"started the embedded server at {found.url} (home {settings.home}; stop it with: stoker down)")
    return Client(found.url, settings["token"] or found.token)


def project_option(command: Command) -> Command:
    """`--project`, as gcloud has it; without it the setting."""
    return click.option("--project", help="The project.  [default: the setting `project`]")(command)


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON for programs.")(command)


def the_project(project: str | None) -> str:
    """The project that was named, or the setting's."""
    return project or str(config()["project"])


def site_rules() -> SiteRules:
    """What this site's settings add to the rules of a job."""
    from stoker.api.dialects.aiplatform_v1.jobs import SiteRules

    settings = config()
    return SiteRules(runtime_versions=frozenset(settings["runtimes"]), strict_runtimes=settings["strict_runtimes"])


def accelerator(text: str) -> str:
    """The name of an accelerator, however it was spelt. Raises NotFound with the nearest."""
    from stoker.hardware.accelerators import accelerators, find_accelerator

    found = find_accelerator(text)
    if found is None:
        raise not_known("accelerator", text, accelerators())
    return found.name


def not_known(what: str, text: str, known: Iterable[str]) -> NotFound:
    """The error for a name that is not in a table, with the nearest that is."""
    from stoker.hardware.faults import closest, either

    near = closest(text, known)
    hint = f"did you mean {either(near)}?" if near else f"stoker {what.replace(' type', '')}s lists them"
    return NotFound(f"no {what} {text!r}", fix=hint)
