"""`stoker env`: the variables that point gcloud and Google's Python clients at the server."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from stoker.cli import session, show
from stoker.core.errors import Unauthenticated

_POLLING_SECONDS = 2  # gcloud's own default, 60 s, makes the logs of an ended job wait for two minutes


@click.command("env")
@click.option("--unset", is_flag=True, help="Take them back: the clients go to Google again.")
@session.project_option
@session.json_option
def command(unset: bool, project: str | None, as_json: bool) -> None:
    """Print the variables that point gcloud and Google's Python clients at this server: eval "$(stoker env)"."""
    client = session.client()
    found = dict(_variables(client.url, _needs_token(client.url), session.the_project(project)))
    if as_json:
        show.data(found)
        return
    for name, value in found.items():
        click.echo(f"unset {name}" if unset else f"export {name}={shlex.quote(value)}")


def _variables(url: str, needs_token: bool, project: str) -> Iterator[tuple[str, str]]:
    settings, gcloud = session.config(), "CLOUDSDK_API_ENDPOINT_OVERRIDES"
    yield f"{gcloud}_ML", f"{url}/"
    yield f"{gcloud}_AIPLATFORM", f"{url}/"
    yield f"{gcloud}_STORAGE", f"{url}/storage/v1/"
    yield f"{gcloud}_LOGGING", f"{url}/"
    if needs_token:
        yield "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", str(settings.home / "token")
    else:
        yield "CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true"
    yield "CLOUDSDK_CORE_PROJECT", project
    yield "CLOUDSDK_COMPUTE_REGION", settings["region"]
    yield "CLOUDSDK_AI_REGION", settings["region"]
    yield "CLOUDSDK_ML_ENGINE_POLLING_INTERVAL", str(_POLLING_SECONDS)
    yield "STORAGE_EMULATOR_HOST", url


def _needs_token(url: str) -> bool:
    """Whether the server asks for a token: it knows best."""
    from stoker.client.client import Client

    anybody = Client(url)
    try:
        anybody.status()
    except Unauthenticated:
        return True
    finally:
        anybody.close()
    return False
