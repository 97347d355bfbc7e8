"""`stoker completion`: the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from stoker.cli.main import stoker as root


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a SHELL. In bash: eval "$(stoker completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "stoker", "_STOKER_COMPLETE").source())
