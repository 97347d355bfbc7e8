"""`stoker`: finds the verb, imports only its file, and shows what goes wrong in three lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from stoker import __version__
from stoker.core.errors import StokerError

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Run programs": {
        "run": "Run a command from this folder as a job",
        "jobs": "Submit and look after jobs, with gcloud's flags",
        "rehearse": "Run a job's whole cluster here, on virtual nodes made for it",
        "drill": "Interrupt a job on purpose, as a rehearsal, and see whether it goes on where it was",
        "probe": "Train a program for a short while on several kinds of hardware, to see which is worth it",
        "local": "Train without a server, as gcloud's `local train`",
        "check": "Check a job without a server: machines, zones, price, or every mistake",
    },
    "Look after jobs": {
        "list": "List jobs",
        "describe": "Show a job in full",
        "logs": "Show what a job printed",
        "wait": "Wait until a job has ended",
        "why": "Say why a job waits, or how it ended",
        "cancel": "Stop a job",
        "keep": "Let a job keep its GPUs, though they are idle",
        "metrics": "How a job trains: speed, what it waits for, loss, who is slow",
        "goodput": "What became of the time for which machines were held",
        "diagnose": "What holds a job up, and what to change",
        "profile": "Show what a job's processes do now, and where their time goes",
        "tensorboard": "Start TensorBoard on what a job has written",
    },
    "The site": {
        "status": "What the server is and has",
        "queue": "Show who waits, in order, and how the queues stand",
        "nodes": "List the machines; cordon, drain and uncordon one",
        "alerts": "Be told of jobs that fail or hang, and of what befalls the site",
        "costs": "What jobs have cost, by project, user, job or day; and budgets",
        "up": "Start the embedded server",
        "down": "End the server; running jobs go on",
    },
    "Hardware": {
        "top": "Watch machines, GPUs and running jobs, live",
        "gpus": "List the GPUs, how busy they are, and who holds them",
        "choose": "Say which hardware a training needs, and why not another",
        "machines": "Look up machine types",
        "accelerators": "Look up GPUs and TPUs",
        "regions": "Look up regions",
    },
    "Plan": {
        "simulate": "Replay a trace of jobs under one or several policies, in virtual time",
        "policy": "See what other rules would have done to this site's own jobs",
    },
    "Administration": {
        "config": "Show and change settings",
        "tokens": "Give other users tokens, and take them back",
        "cluster": "Make a cluster file for a cloud from the site's pools; bring it up and down",
        "backup": "Back up the home into one file, while the server runs",
        "restore": "Bring a backup back",
    },
    "This shell": {
        "env": "Point gcloud and Google's Python clients at the server",
        "completion": "Print the completion script of a shell",
        "help": "Show the help of a command",
    },
}
VERBS: Mapping[str, str] = {name: text for group in GROUPS.values() for name, text in group.items()}
OF_JOBS = frozenset({"list", "describe", "cancel"})
"""Members of `stoker jobs` that are wanted every day: `stoker list` is `stoker jobs list`."""


class Verbs(click.Group):
    """A group whose members are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a verb's file."""
        if name not in VERBS:
            return None
        return command_of(name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the verb, or say which one was meant."""
        if args and args[0] not in VERBS:
            raise no_such_command(args[0], list(VERBS), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing any of them."""
        width = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), text) for name, text in verbs.items()])


def command_of(verb: str) -> click.Command:
    """A verb's command; its file is imported."""
    command: click.Command = import_module(f"stoker.cli.verbs.{'jobs' if verb in OF_JOBS else verb}").command
    return command.commands[verb] if verb in OF_JOBS and isinstance(command, click.Group) else command


class Nouns(click.Group):
    """A group of subcommands that says which one was meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the subcommand, or say which one was meant."""
        if args and args[0] not in self.commands:
            raise no_such_command(args[0], list(self.commands), ctx)
        return super().resolve_command(ctx, args)


def no_such_command(name: str, known: list[str], ctx: click.Context) -> click.UsageError:
    """The error for a mistyped command."""
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean `{ctx.command_path} {near[0]}`?" if near else f"there are: {', '.join(known)}"
    return click.UsageError(f"no such command {name!r}; {hint}", ctx)


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stoker")
def stoker() -> None:
    """Stoker keeps the GPUs fed: train on this machine today, on a cluster tomorrow, with the same command.

    First steps: `stoker run -- python train.py`, or `stoker jobs submit training --help`.
    """


def main(args: Sequence[str] | None = None) -> None:
    """The entry point. Ends with the exit codes of cli/show.py; a traceback is shown only with STOKER_DEBUG=1."""
    from stoker.cli import output, show

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ✓ shows a ? and goes on
    try:
        status = stoker.main(args=list(args) if args is not None else None, prog_name="stoker", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.UsageError as error:
        sys.exit(show.usage_error(error))
    except click.ClickException as error:
        sys.exit(show.error(StokerError(error.format_message())))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        output.drop()
        sys.exit(141)
    except StokerError as error:
        from stoker.cli import session

        sys.exit(show.error(session.advised(error)))
    except Exception as error:
        if failed := output.failure(error):
            output.drop()
            sys.exit(show.error(StokerError(f"cannot write to the output: {failed.strerror}")))
        if os.environ.get("STOKER_DEBUG"):
            raise
        sys.exit(show.unexpected(error))


if __name__ == "__main__":
    main()
