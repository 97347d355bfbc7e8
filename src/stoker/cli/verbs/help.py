"""`stoker help`: the help of a command."""

from __future__ import annotations

import click

from stoker.cli.main import no_such_command
from stoker.cli.main import stoker as root


@click.command("help")
@click.argument("words", nargs=-1)
def command(words: tuple[str, ...]) -> None:
    """Show the help of a command, such as `stoker help jobs submit training`."""
    found: click.Command = root
    context = click.Context(root, info_name="stoker")
    for word in words:
        below = found.get_command(context, word) if isinstance(found, click.Group) else None
        if below is None:
            known = found.list_commands(context) if isinstance(found, click.Group) else []
            raise no_such_command(word, known, context)
        found, context = below, click.Context(below, info_name=word, parent=context)
    click.echo(found.get_help(context))
