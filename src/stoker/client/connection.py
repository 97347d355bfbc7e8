"""Which server is meant, and who gets to see which token: the configured one, or this home's own, started when it is needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from stoker.config import Config, read_config
from stoker.core.errors import Unavailable

from . import arguments as a
from . import embedded
from .client import Client

START_IT = "start it: stoker up"

_lock = threading.Lock()
_chosen: Client | None = None  # by connect()
_found: Client | None = None  # the last of settings that led to a server
_found_by: tuple[str, str] = ("", "")


def client_of(config: Config, *, start: bool = True, started: Callable[[embedded.Found], None] | None = None) -> Client:
    """A client of the configured server, or of this home's own.

    `start`: bring it up if it does not run; `started` is told. Raises Unavailable.
    """
    return Client(*address_of(config, start=start, started=started), find=_finder(config))


def address_of(
    config: Config, *, start: bool = True, started: Callable[[embedded.Found], None] | None = None
) -> tuple[str, str]:
    """The address of that server, and the token to show to it."""
    if config["url"]:
        return config["url"], config["token"] or _token_of_home(config)
    found = embedded.find(config)
    if found is None:
        if not start:
            raise Unavailable("no server runs here", fix=START_IT)
        found = embedded.start(config)
        if started is not None:
            started(found)
    return found.url, config["token"] or found.token


def connect(url: str = "", token: str = "") -> Client:
    """Let every call that follows in this process go to the server at `url`, such as `http://gpu-box:7077`.

    `token`: the text of the file `token` in that server's home. Without a url, back to what the settings say: this home's
    own server. Raises BadSpec for what is not an address, Unavailable or Unauthenticated if the server does not answer to it.
    """
    if url := a.argument("url", url, a.a_text):
        client = Client(url, a.argument("token", token, a.a_text))
        client.status()
        use(client)
    else:
        use(None)
    return the_client()


def use(client: Client | None) -> None:
    """Let every call that follows in this process go through this client; None: through the one of the settings."""
    global _chosen
    with _lock:
        _chosen = client


def the_client() -> Client:
    """The client of this process: of `connect`, or else of the settings, which are read anew each time."""
    global _found, _found_by
    with _lock:
        if _chosen is not None:
            return _chosen
        config = settings()
        address = address_of(config)
        if _found is None or address != _found_by:
            _found, _found_by = Client(*address, find=_finder(config)), address
        return _found


def settings() -> Config:
    """The settings of this process, in this folder, now."""
    return read_config(os.environ, Path.cwd())


def is_of_folder(config: Config, name: str) -> bool:
    """Whether a setting comes from the folder's stoker.yaml, which need not be the user's own."""
    return Path(config.values[name].source).name == "stoker.yaml"


def _finder(config: Config) -> Callable[[], tuple[str, str]] | None:
    """Looks up who leads in this home by now. None where the settings name the server: then it is meant, and no other."""
    return None if config["url"] else lambda: address_of(config, start=False)


def _token_of_home(config: Config) -> str:
    """This home's token, for an address on this machine that its user has set: no other server, and no folder, gets it."""
    try:
        is_ours = urlsplit(config["url"]).hostname in ("127.0.0.1", "localhost", "::1")
        if is_ours and not is_of_folder(config, "url"):
            return (config.home / "token").read_text().strip()
    except (OSError, ValueError):
        pass
    return ""
