"""`stoker env`: the variables that point gcloud and Google's Python clients at the server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from stoker.cli import session, show
from stoker.core.errors import Unauthenticated

_POLLING_SECONDS = 2  # gcloud's own default, 60 s, makes the logs of an ended job wait for two minutes
_ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES"
_TOKEN, _NO_TOKEN = "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", "CLOUDSDK_AUTH_DISABLE_CREDENTIALS"
NAMES = (
    *(f"{_ENDPOINT}_{service}" for service in ("ML", "AIPLATFORM", "STORAGE", "LOGGING")),
    *(_TOKEN, _NO_TOKEN, "CLOUDSDK_CORE_PROJECT", "CLOUDSDK_COMPUTE_REGION", "CLOUDSDK_AI_REGION"),
    *("CLOUDSDK_ML_ENGINE_POLLING_INTERVAL", "STORAGE_EMULATOR_HOST"),
)
"""Every variable that may be set, in the order in which they are."""


@click.command("env")
@click.option("--unset", is_flag=True, help="Take them back: the clients go to Google again.")
@session.project_option
@session.json_option
def command(unset: bool, project: str | None, as_json: bool) -> None:
    """Print the variables that point gcloud and Google's Python clients at this server: eval "$(stoker env)"."""
    found = {} if unset else _variables(session.the_project(project))
    if as_json:
        show.data(found)
        return
    for name in NAMES:
        click.echo(f"export {name}={shlex.quote(found[name])}" if name in found else f"unset {name}")


def _variables(project: str) -> Mapping[str, str]:
    """The values of the variables, for the server that is configured, or this home's own."""
    from stoker.client.connection import address_of

    session.client().status()  # started, if it does not run; and the token is the right one
    settings = session.config()
    url, token = address_of(settings)
    return {
        f"{_ENDPOINT}_ML": f"{url}/",
        f"{_ENDPOINT}_AIPLATFORM": f"{url}/",
        f"{_ENDPOINT}_STORAGE": f"{url}/storage/v1/",
        f"{_ENDPOINT}_LOGGING": f"{url}/",
        **({_TOKEN: str(_token_file(settings.home, token))} if _needs_token(url) else {_NO_TOKEN: "true"}),
        "CLOUDSDK_CORE_PROJECT": project,
        "CLOUDSDK_COMPUTE_REGION": settings["region"],
        "CLOUDSDK_AI_REGION": settings["region"],
        "CLOUDSDK_ML_ENGINE_POLLING_INTERVAL": str(_POLLING_SECONDS),
        "STORAGE_EMULATOR_HOST": url,
    }


def _token_file(home: Path, token: str) -> Path:
    """A file with the token that this server is shown: this home's own, or one beside it for another server's token."""
    own = home / "token"
    if own.exists() and own.read_text().strip() == token:
        return own
    if not token:
        raise Unauthenticated("the server asks for a token, and none is known here", fix="set STOKER_TOKEN, then again")
    from stoker.runtime.folder import write_whole

    other = home / "token-of-url"
    home.mkdir(parents=True, exist_ok=True)
    write_whole(str(other), token + "\n")
    return other


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
