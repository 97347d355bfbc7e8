"""Which machines were made nodes by SSH, and what is known of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker.core.errors import NotFound, Unavailable
from stoker.runtime.folder import write_whole

_NAME = "hosts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One of them."""

    name: str
    destination: str  # as OpenSSH takes it: user@host, or an alias of its configuration
    address: str  # by which the others reach it
    gpus: str = "auto"
    packages: str = "all"
    index_options: tuple[str, ...] = ()
    ssh_config: str = ""
    environment: str = ""  # the digest of what was installed
    ray_version: str = ""
    driver: str = ""  # of its GPUs, as it was seen last

    def is_node(self, node: str) -> bool:
        """Whether the node of this name is, or was, this machine."""
        return node.startswith(f"{self.address}-")


class HostBook:
    """The hosts of one home."""

    def __init__(self, home: Path) -> None:
        self._path = home / _NAME

    def hosts(self) -> list[Host]:
        """All, in the order of their names. Raises Unavailable if the file is damaged."""
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            return [Host(**{**row, "index_options": tuple(row.get("index_options", ()))}) for row in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"{self._path} cannot be read: {error}",
                fix="bring it back from a backup, or remove it and add the machines anew",
            ) from None

    def host(self, name: str) -> Host:
        """By its name, its destination or its address. Raises NotFound with the names that there are."""
        for host in self.hosts():
            if name in (host.name, host.destination, host.address) or host.is_node(name):
                return host
        names = ", ".join(host.name for host in self.hosts())
        raise NotFound(
            f"no machine {name} was added by `stoker nodes add`", fix=f"there are {names}" if names else "none was"
        )

    def put(self, host: Host) -> None:
        """Add one, or write down what has changed of it."""
        self._write([*(other for other in self.hosts() if other.name != host.name), host])

    def drop(self, name: str) -> None:
        """It is none of them any more."""
        self._write(other for other in self.hosts() if other.name != name)

    def _write(self, hosts: Iterable[Host]) -> None:
        rows = [asdict(host) for host in sorted(hosts, key=lambda host: host.name)]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(str(self._path), json.dumps(rows, indent=1))
