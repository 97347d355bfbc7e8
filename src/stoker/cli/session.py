"""What most verbs begin with: the settings, and a client of the server, which is started if nobody runs it yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.config import Config, read_config
from stoker.core.errors import NotFound, StokerError, Unauthenticated, Unavailable

from . import show

if TYPE_CHECKING:
    from stoker.api.translation import SiteRules
    from stoker.client.client import Client
    from stoker.client.embedded import Found

Command = TypeVar("Command", bound=Callable[..., Any])

NO_TOKEN = "NO TOKEN is asked for: every program and user of this machine can run code through this server"
_START_IT = "start it: stoker up"
_IMPATIENT_SECONDS = 10.0


@cache
def config() -> Config:
    """The settings of this process."""
    return read_config(os.environ, Path.cwd())


def client(*, start: bool = True) -> Client:
    """A client of the configured server, or of this home's own. `start`: bring it up if it does not run, and say so."""
    from stoker.client.connection import client_of

    settings = config()

    def started(found: Found) -> None:
        """Say so: the user has not asked for it."""
        show.done(f"started the embedded server at {found.url} (home {settings.home}; stop it with: stoker down)")
        if not found.needs_token:
            show.warn(NO_TOKEN)

    return client_of(settings, start=start, started=started)


def impatient_client() -> Client:
    """A client of the server that runs now, which waits no longer than a few seconds for an answer. Starts none."""
    from stoker.client.client import Client
    from stoker.client.connection import address_of

    return Client(*address_of(config(), start=False), seconds=_IMPATIENT_SECONDS)


def advised(error: StokerError) -> StokerError:
    """An error, with what to do here where the server could not know it."""
    if isinstance(error, NotFound) and error.message.startswith("no job") and not error.fix:
        error.fix = "stoker jobs list shows what there is"
    if isinstance(error, Unauthenticated):
        error.fix = _token_advice(config())
    if isinstance(error, Unavailable) and error.fix == _START_IT and config()["url"]:
        error.fix = (
            f"start the server there, or drop the address ({config().values['url'].source}) to use one of your own"
        )
    return error


def job_argument(command: Command) -> Command:
    """JOB, completed from the jobs that there are."""
    return click.argument("job", shell_complete=_job_names)(command)


def project_option(command: Command) -> Command:
    """`--project`, as gcloud has it; without it the setting."""
    return click.option("--project", help="The project.  [default: the setting `project`]")(command)


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON for programs.")(command)


def gcloud_wide_flags(command: Command) -> Command:
    """What gcloud takes with every command, and scripts therefore give: taken, and of no effect here."""
    switches = ("-q/--quiet", "--log-http", "--user-output-enabled", "--no-user-output-enabled")
    values = (
        *("--verbosity", "--account", "--configuration", "--billing-project", "--trace-token", "--flatten"),
        *("--impersonate-service-account", "--access-token-file"),
    )
    for names in switches:
        command = click.option(*names.split("/"), is_flag=True, hidden=True, expose_value=False)(command)
    for name in values:
        command = click.option(name, hidden=True, expose_value=False)(command)
    return command


def the_project(project: str | None) -> str:
    """The project that was named, or the setting's."""
    return project or str(config()["project"])


def site_rules() -> SiteRules:
    """What this site's settings add to the rules of a job."""
    from stoker.api.translation import SiteRules
    from stoker.engines.local.pythons import find_uv, surroundings

    settings = config()
    runtimes = surroundings(settings["runtimes"], find_uv())
    return SiteRules(runtimes=runtimes, strict_runtimes=settings["strict_runtimes"])


def accelerator(text: str) -> str:
    """The name of an accelerator, however it was spelt. Raises NotFound with the nearest."""
    from stoker.hardware.accelerators import accelerators, find_accelerator

    found = find_accelerator(text)
    if found is None:
        short = {name.removeprefix("NVIDIA_").removeprefix("TESLA_"): name for name in accelerators()}
        near = get_close_matches(text.upper().replace(" ", "_"), short, n=3, cutoff=0.5)
        raise not_known("accelerator", text, accelerators(), near=near)
    return found.name


def not_known(what: str, text: str, known: Iterable[str], *, near: Sequence[str] = ()) -> NotFound:
    """The error for a name that is not in a table, with the nearest that is."""
    from stoker.hardware.faults import closest, either

    near = closest(text, known) or near
    hint = f"did you mean {either(near)}?" if near else f"stoker {what.replace(' type', '')}s lists them"
    return NotFound(f"no {what} {text!r}", fix=hint)


def _job_names(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """For the shell: never starts a server, and gives up soon."""
    from stoker.client import embedded
    from stoker.client.client import Client

    found = embedded.find(config())
    if found is None:
        return []
    try:
        jobs = Client(found.url, found.token, seconds=0.3).jobs(str(config()["project"]), 200)
    except StokerError:
        return []
    return [job["name"] for job in jobs if job["name"].startswith(begun)]


def _token_advice(settings: Config) -> str:
    source = settings.values["token"].source
    if source != "default":
        named = "STOKER_TOKEN" if source == "environment" else f"the token in {source}"
        return f"{named} is not that server's: set it to the text of the file `token` in the server's home, or drop it"
    if settings["url"]:
        return "set STOKER_TOKEN to the text of the file `token` in that server's home"
    return "stoker down, then stoker up: the server and this home have different tokens"
