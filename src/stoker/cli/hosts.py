"""The server of this home, as machines that are added by SSH need it: it listens where they reach it, with Ray's head here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker.cli import session, show
from stoker.client import embedded
from stoker.client.client import Client
from stoker.config import Config, read_config, write_setting
from stoker.core.errors import Conflict, NotFound, Unavailable
from stoker.engines.ray.hosts.adding import Hosts

_OURS = ("engine", "address", "host")
"""The settings that `nodes add` makes, and that go with the last machine."""

_BEFORE = "ray/settings-before.json"


class ThisSite:
    """Implements Site for the server of this user's home."""

    def __init__(self, config: Config) -> None:
        """Raises Conflict where the settings name a server, or a Ray cluster, that is none of this home's."""
        self._config = config
        if config["url"]:
            raise Conflict(
                f"the server is elsewhere, at {config['url']}",
                fix="run this on its machine, as the user whose home it uses",
            )

    def serve_at(self, host: str, head: str) -> str:
        """Write the settings if they are others, and start the server anew."""
        wanted = {"engine": "local,ray", "address": head, "host": host}
        if self._config["address"] not in ("", head) and "ray" in self._config["engine"]:
            raise Conflict(
                f"this server uses the Ray cluster at {self._config['address']} already",
                fix="machines join that by ray start; or stoker config unset address, to have Stoker keep one of its own",
            )
        if any(self._config[name] != value for name, value in wanted.items()) or embedded.find(self._config) is None:
            self._check_settings()
            self._remember()
            for name, value in wanted.items():
                write_setting(self._config, name, value)
            self._start_anew()
        found = embedded.find(self._config)
        if found is None:
            raise Unavailable("the server has ended just now", fix="stoker up")
        return urlsplit(found.url).netloc

    def leave_cluster(self) -> None:
        """There are no machines any more: the settings are as they were before the first."""
        before = self._before()
        for name in _OURS:
            write_setting(self._config, name, before.get(name))
        (self._config.home / _BEFORE).unlink(missing_ok=True)
        self._start_anew()

    def nodes_up(self, address: str) -> Collection[str]:
        """By the server's list of nodes."""
        return [node["name"] for node in self.nodes_at(address) if node["state"] == "UP"]

    def jobs_at(self, address: str) -> Sequence[str]:
        """By the server's list of nodes."""
        return sorted({job for node in self.nodes_at(address) for job in node["jobs"]})

    def nodes_at(self, address: str) -> list[Mapping[str, Any]]:
        """The nodes that a machine is, or was."""
        found = embedded.find(self._config)
        if found is None:
            return []
        client = Client(found.url, found.token)
        try:
            return [node for node in client.nodes() if node["name"].startswith(f"{address}-")]
        finally:
            client.close()

    def _check_settings(self) -> None:
        """Raises Conflict for a setting that would go over what is written into the home's config.yaml."""
        ours = ("default", str(self._config.home / "config.yaml"))
        wrong = [name for name in _OURS if self._config.values[name].source not in ours]
        if wrong:
            raise Conflict(
                f"{', '.join(wrong)} is set elsewhere: {self._config.values[wrong[0]].source}",
                fix="take it out there: stoker nodes add keeps it in the home's config.yaml",
            )

    def _remember(self) -> None:
        """What the settings were before the first machine."""
        path = self._config.home / _BEFORE
        if not path.exists():
            values = {name: self._config.values[name] for name in _OURS}
            before = {name: value.value for name, value in values.items() if value.source != "default"}
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(json.dumps(before))

    def _before(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads((self._config.home / _BEFORE).read_text())
            return found
        except (OSError, ValueError):
            return {}

    def _start_anew(self) -> None:
        """What runs goes on meanwhile."""
        found = embedded.find(self._config)
        if found is not None:
            embedded.stop(self._config, found)
        self._config = read_config(os.environ, Path.cwd())
        started = embedded.start(self._config)
        show.done(f"server  {started.url}   (it was started anew; jobs run on)")


def hosts_of(site: ThisSite) -> Hosts:
    """The machines of this home."""
    return Hosts(session.config().home, site, show.progress, show.warn)


def for_each(names: Sequence[str], what: Callable[[str], None]) -> bool:
    """Do something with each; what fails with one is told, and the others go on. Returns whether all went well."""
    from stoker.core.errors import StokerError

    failed = []
    for name in names:
        try:
            what(name)
        except NotFound:
            raise
        except StokerError as error:
            failed.append(name)
            show.error(error)
    return not failed
