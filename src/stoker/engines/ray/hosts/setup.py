"""The scripts that make a machine a node, keep it one, and end that. They need sh and what every Linux has.

    ~/.local/share/stoker-node/
        owner               whose node it is
        bin/uv              brought from the server's machine
        env/DIGEST/         an environment, named by what is in it
        token       0600    Ray's
        run                 starts Ray here, and ends with it
        keep                starts it again and again, where there is no systemd
        wanted              as long as it is here, `keep` does
        log                 what Ray's start says
        work/               of replicas

With systemd a unit of the user's does what `keep` does, and after a reboot as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib import resources

FOLDER = '"$HOME/.local/share/stoker-node"'
UNIT = "stoker-node.service"
HOST_LABEL = "stoker.io/host"
NO_PYTHON = "no Python"


def script(name: str, **values: str) -> str:
    """A script of this folder, with values set as variables before it."""
    text = resources.files(__package__).joinpath("scripts", name).read_text(encoding="utf-8")
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items()) + text


def install(*, digest: str, python: str, requirements: Sequence[str], index_options: Sequence[str]) -> str:
    """Make the environment of this digest, if it is not there yet."""
    return script(
        "install.sh",
        digest=digest,
        python=python,
        minor=".".join(python.split(".")[:2]),
        requirements="\n".join([*index_options, *requirements]),
    )


def start(
    *, site: str, digest: str, token: str, head: str, address: str, gpus: str, host: str, health: Mapping[str, str]
) -> str:
    """Write what keeps the node, and start it. Prints `systemd` or `keep`, and what is missing for it to come back by itself."""
    return script(
        "start.sh",
        site=site,
        digest=digest,
        token=token,
        head=head,
        address=address,
        gpus="" if gpus == "auto" else f"--num-gpus={int(gpus)}",
        labels=f"{HOST_LABEL}={host}",
        health="\n".join(f"export {name}={shlex.quote(value)}" for name, value in health.items()),
        unit=UNIT,
    )


def stop(*, is_forever: bool) -> str:
    """End the node. `is_forever`: and remove all of it."""
    return script("stop.sh", forever="yes" if is_forever else "", unit=UNIT)


def log_of_start() -> str:
    """The last lines of what Ray's start has said."""
    return f"tail -n 40 {FOLDER}/log 2>/dev/null\n"
