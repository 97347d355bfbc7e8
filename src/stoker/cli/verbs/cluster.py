"""`stoker cluster`: machines of a cloud, ordered by Ray."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import session, show
from stoker.cli.main import Nouns
from stoker.registry import names

if TYPE_CHECKING:
    from stoker.core.site import Pool, Site

TESTED_RAY = "2.60.0"
"""The Ray that clusters get where none is installed here."""

_A_POOL = """for example in site.toml:
  [pools.t4x4]
  machine_type = "n1-highcpu-16"
  accelerator_type = "T4"
  accelerator_count = 4
  zone = "us-west1-a"
  max = 12"""
file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.group("cluster", cls=Nouns)
def command() -> None:
    """Make a cluster file for a cloud from the pools of the site file; bring the cluster up and down by Ray's launcher."""


@command.command("render")
@click.option("--provider", type=click.Choice(names("clusters")), required=True, help="Whose machines they are.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it there.  [default: print it]")
@click.option("--force", is_flag=True, help="Overwrite the file of --out.")
@click.option("--site", type=click.Path(path_type=Path), metavar="FILE", help="The site file.  [default: the server's]")
@click.option(
    "--pool", "wanted", multiple=True, metavar="NAME", help="Only this pool; may be repeated.  [default: all]"
)
@click.option("--name", default="stoker", show_default=True, metavar="NAME", help="What the cluster is called.")
@click.option("--project-id", metavar="ID", help="gcp: the project that pays. Needed there.")
@click.option("--region", help="aws, azure: the region, where the pools have Google's.")
@click.option("--zone", help="gcp, aws, azure: one zone, and only the pools that are in it or anywhere.")
@click.option("--image", help="What machines or containers start from.  [default: the cloud's own for deep learning]")
@click.option("--head", metavar="TYPE", help="gcp, aws, azure: the machine type of the head, which runs no jobs.")
@click.option("--disk-gb", type=click.IntRange(50), help="gcp, aws, azure: the disk of each machine.  [default: 200]")
@click.option("--service-account", metavar="EMAIL", help="gcp: whose rights programs have on the machines.")
@click.option("--resource-group", metavar="NAME", help="azure: the resource group.  [default: the cluster's name]")
@click.option("--subscription-id", metavar="ID", help="azure: the subscription.  [default: that of the az command]")
@click.option("--namespace", help="kuberay: the namespace.  [default: default]")
@click.option(
    "--select-by",
    type=click.Choice(["machine", "pool"]),
    help="kuberay: find machines by their type, or by a label stoker.io/pool of theirs.  [default: machine]",
)
@click.option("--ray-version", metavar="VERSION", help="The Ray of every machine.  [default: the one installed here]")
@click.option("--python-version", metavar="VERSION", help="Its Python.  [default: this one]")
def render(
    provider: str, out: Path | None, force: bool, site: Path | None, wanted: tuple[str, ...], **given: Any
) -> None:
    """Write Ray's own cluster file from the pools: each becomes a type of machines that are ordered when jobs need them.

    No cloud is asked and nothing is ordered. For kuberay it is a RayCluster, for kubectl.
    """
    from stoker.engines.ray.clusters.base import Options
    from stoker.engines.ray.clusters.text import heading, next_step, text_of
    from stoker.registry import load

    rules = _site(site)
    pools = _chosen(rules, wanted)
    member = load("clusters", provider)()
    options = Options(idle_seconds=rules.idle_seconds, **_options(provider, member.takes, given))
    content = member.render(pools, options)
    text = text_of(content, heading(provider, content, pools, options.idle_seconds))
    if out is None:
        click.echo(text, nl=False)
        return
    _write(out, text, force)
    show.done(f"{out} is written")
    show.note(f"  Next:  {next_step(provider, str(out))}")


@command.command("up")
@file_argument
def up(file: Path) -> int:
    """Order the head of the cluster in FILE and set it up; it orders other machines when jobs need them. COSTS MONEY."""
    from stoker.engines.ray.launcher import head_address, read_cluster_file
    from stoker.engines.ray.launcher import up as bring_up

    cluster = read_cluster_file(file)
    code = bring_up(cluster)
    if code == 0:
        show.done(f"the cluster {cluster.name} is up; its head is {head_address(cluster) or 'where ray says above'}")
        show.note(f"  Next, on the head or where its network is reached (ray attach {file} is a shell on the head):")
        show.note("  stoker up --host ADDRESS --engine ray --address HEAD:6379")
        show.note(f"  To pay no more:  stoker cluster down {file}")
    return code


@command.command("down")
@file_argument
def down(file: Path) -> int:
    """Give back every machine of the cluster in FILE, the head too. What runs there ends."""
    from stoker.engines.ray.launcher import down as bring_down
    from stoker.engines.ray.launcher import read_cluster_file

    cluster = read_cluster_file(file)
    code = bring_down(cluster)
    if code == 0:
        show.done(f"the cluster {cluster.name} is down; see in the cloud's console that nothing is left")
    return code


@command.command("status")
@file_argument
def status(file: Path) -> int:
    """Show the machines of the cluster in FILE: those that are there, come, or are wanted. Asks its head, by ssh."""
    from stoker.engines.ray.launcher import read_cluster_file
    from stoker.engines.ray.launcher import status as ask

    return ask(read_cluster_file(file))


def _site(path: Path | None) -> Site:
    from stoker.site.site_file import read_file, read_site

    settings = session.config()
    return read_site(settings) if path is None else read_file(path, settings["region"])


def _chosen(site: Site, wanted: Sequence[str]) -> list[Pool]:
    """The pools to take."""
    from stoker.core.errors import BadSpec, NotFound, Violation

    if not site.pools:
        raise BadSpec([Violation("pools", "there are none in the site file")], fix=_A_POOL)
    unknown = [name for name in wanted if name not in site.pools]
    if unknown:
        raise NotFound(f"no pool {unknown[0]!r}; there are {', '.join(site.pools)}")
    return [pool for name, pool in site.pools.items() if not wanted or name in wanted]


def _options(provider: str, takes: frozenset[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """What the user has said, and what of it means something to this provider."""
    from stoker.engines.ray.clusters.base import CLUSTER_NAME, refused

    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in takes | {"name", "image", "ray_version", "python_version"}:
            raise click.UsageError(
                f"--{name.replace('_', '-')} means nothing to {provider}", click.get_current_context()
            )
    if not CLUSTER_NAME.fullmatch(options["name"]):
        raise refused(
            "--name", f"{options['name'][:60]!r} is not a name: at most 30 of a-z, 0-9 and '-', a letter first"
        )
    return {"ray_version": _ray_here(), "python_version": platform.python_version(), **options}


def _ray_here() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ray")
    except PackageNotFoundError:
        return TESTED_RAY


def _write(out: Path, text: str, force: bool) -> None:
    from stoker.core.errors import AlreadyExists

    if out.exists() and not force:
        raise AlreadyExists(f"{out} is there already", fix="--force overwrites it")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from None
