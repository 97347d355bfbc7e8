"""gcloud's flags of `ai-platform jobs submit training`, shared by submit, rehearse and check. client/job_body.py merges them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.client.job_body import Accelerator
from stoker.core.durations import seconds_of
from stoker.core.errors import BadSpec, Violation
from stoker.core.options import OPTIONS, Choice, Count, Interval, Option, Switch, Time

Function = TypeVar("Function", bound=Callable[..., Any])

SCALE_TIERS = ("basic", "basic-gpu", "basic-tpu", "standard-1", "premium-1", "custom")


class UserArgsCommand(click.Command):
    """A command whose own flags end at the first `--`: what follows is the program's, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the program's arguments aside. None given is not the same as an empty list."""
        ctx.meta["user_args"] = None
        if "--" in args:
            cut = args.index("--")
            ctx.meta["user_args"] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


class Tier(click.Choice[str]):
    """A scale tier, as gcloud spells it or as the API does: basic-gpu, BASIC_GPU."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The tier in gcloud's spelling."""
        return super().convert(str(value).replace("_", "-"), param, ctx)


def read_accelerator(_: click.Context, __: click.Parameter, value: str | None) -> Accelerator | None:
    """Read `count=N,type=T`, both needed; the type by its name in the API."""
    from stoker.hardware.accelerators import find_accelerator

    if value is None:
        return None
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    if set(parts) != {"count", "type"}:
        raise click.BadParameter(f"{value!r} is not count=N,type=TYPE, such as count=4,type=nvidia-tesla-t4")
    if not parts["count"].isdigit() or int(parts["count"]) < 1:
        raise click.BadParameter(f"{parts['count']!r} is not a count of 1 or more")
    found = find_accelerator(parts["type"])
    return Accelerator(int(parts["count"]), found.name if found else parts["type"].upper().replace("-", "_"))


def read_labels(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, str] | None:
    """Read `k=v,k=v`."""
    if value is None:
        return None
    pairs = [part.partition("=") for part in value.split(",") if part]
    if not all(separator for _, separator, _ in pairs):
        raise click.BadParameter(f"{value!r} is not KEY=VALUE,KEY=VALUE")
    return {key: text for key, _, text in pairs}


def variables_of(pairs: Sequence[str]) -> dict[str, str]:
    """`--env NAME=VALUE`, once or several times. Raises BadSpec."""
    wrong = [pair for pair in pairs if "=" not in pair or not pair.partition("=")[0]]
    if wrong:
        raise BadSpec([Violation("--env", f"{wrong[0]!r} is not NAME=VALUE")])
    return dict(pair.partition("=")[::2] for pair in pairs)


def dry_run_flags(function: Function) -> Function:
    """`--dry-run`, and `--json` for what it says."""
    as_json = click.option("--json", "as_json", is_flag=True, help="With --dry-run: JSON for programs.")
    text = "Say where and when it would start, and what it would cost; upload and submit nothing."
    return click.option("--dry-run", is_flag=True, help=text)(as_json(function))


def check_dry_run(dry_run: bool, as_json: bool) -> None:
    """Raise UsageError for `--json` alone."""
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run", click.get_current_context())


def job_flags(function: Function) -> Function:
    """Every flag that says what a job is."""
    positive = click.IntRange(min=1)
    flags = [
        click.option("--config", "config_file", type=click.Path(path_type=Path), help="A Job in YAML; flags beat it."),
        click.option("--scale-tier", type=Tier(SCALE_TIERS, case_sensitive=False), help="The cluster's shape."),
        click.option("--region", help="The region.  [default: the setting `region`]"),
    ]
    for flag, name in (
        ("master", "the master"),
        ("worker", "each worker"),
        ("parameter-server", "each parameter server"),
    ):
        flags += [
            click.option(f"--{flag}-machine-type", help=f"The machine type of {name}."),
            click.option(
                f"--{flag}-accelerator",
                metavar="count=N,type=T",
                callback=read_accelerator,
                help=f"The accelerators of {name}.",
            ),
            click.option(f"--{flag}-image-uri", help=f"The container image of {name}."),
        ]
        if flag != "master":
            flags.append(click.option(f"--{flag}-count", type=positive, help=f"How many {flag.replace('-', ' ')}s."))
    flags += [
        click.option("--module-name", help="The module to run, such as trainer.task."),
        click.option("--package-path", type=click.Path(path_type=Path), help="The folder of the trainer package."),
        click.option(
            "--packages", help="Archives, comma-separated: local ones are uploaded, gs:// ones used as they are."
        ),
        click.option(
            "--requirements",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Install what this file lists.  [default: requirements.txt beside the package, without a setup.py there]",
        ),
        click.option(
            "--with", "with_packages", multiple=True, metavar="PACKAGE", help="Install this as well; repeatable."
        ),
        click.option("--staging-bucket", help="Where packages go, if there is no --job-dir."),
        click.option(
            "--job-dir", help="gs://BUCKET/…: for checkpoints and models; handed to the program as --job-dir."
        ),
        click.option("--runtime-version", help="x.y"),
        click.option("--python-version", help="2.7, 3.5 or 3.7"),
        click.option(
            "--use-chief-in-tf-config", is_flag=False, flag_value="true", type=bool, help="For custom containers."
        ),
        click.option("--service-account", help="Kept with the job."),
        click.option("--network", help="Kept with the job."),
        click.option("--enable-web-access/--no-enable-web-access", default=None, help="Kept with the job."),
        click.option("--tpu-tf-version", help="Kept with the job."),
        click.option("--labels", metavar="k=v,...", callback=read_labels, help="Labels of the job."),
        click.option("--kms-key", help="Kept with the job."),
        click.option("--kms-keyring", hidden=True),
        click.option("--kms-location", hidden=True),
        click.option("--kms-project", hidden=True),
    ]
    for add in reversed(flags):
        function = add(function)
    return option_flags(function)


def option_flags(function: Function) -> Function:
    """A flag for each of a job's options (core/options.py): shared with `stoker run`."""
    for option in reversed(OPTIONS):
        function = _flag_of(option)(function)
    return function


def _flag_of(option: Option) -> Callable[[Function], Function]:
    default = f"  [default: {option.default_words}]" if option.default_words else ""
    told: dict[str, Any] = {"help": option.help + default, "default": None}
    name = option.spelling
    match option.kind:
        case Choice(words):
            told["type"] = click.Choice(words)
        case Switch():
            name = f"{name}/--no-{name[2:]}"
        case Count(most):
            told["type"] = click.IntRange(0, most)
        case Time() as kind:
            told |= {"metavar": "TIME", "callback": _reader(kind.read)}
        case Interval() as kind:
            told |= {"metavar": "auto|none|TIME", "callback": _reader(lambda text: kind.read(text) and text)}
    return click.option(name, option.name, **told)


def _reader(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback that reads a flag by a function that raises ValueError."""

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


read_duration = _reader(seconds_of)
"""Reads `90s`, `30m`, `1h`."""
