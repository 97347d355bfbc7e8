"""`stoker nodes`: the machines, and whether they are given work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import node_health, session, show
from stoker.cli.main import Nouns

if TYPE_CHECKING:
    from stoker.engines.ray.hosts.book import Host

name_argument = click.argument("name", metavar="NODE")
why_option = click.option("--why", default="", metavar="TEXT", help="Why: jobs that wait for it are told so.")


@click.group("nodes", cls=Nouns, invoke_without_command=True)
@session.json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """The machines, real and declared, and whether they are given work. Without a command: list them."""
    if context.invoked_subcommand is None:
        _list(as_json)


@command.command("list")
@session.json_option
def list_nodes(as_json: bool) -> None:
    """List the machines, real and declared, and what is free on them."""
    _list(as_json)


@command.command("describe")
@name_argument
@session.json_option
def describe(name: str, as_json: bool) -> None:
    """Show one machine: what it has, who runs there, whether it takes work, what its GPUs and it do, and its failures."""
    from stoker.cli.node_details import details_of, show_details

    node = details_of(session.client(), _node_name(name))
    if as_json:
        show.data(node)
        return
    show.table(["FIELD", "VALUE"], [[field, value] for field, value in _fields(node) if value != ""])
    show_details(node)


command.add_command(node_health.test)


@command.command("cordon")
@name_argument
@why_option
@session.json_option
def cordon(name: str, why: str, as_json: bool) -> None:
    """Give NODE nothing new. What runs there runs on.

    Slurm calls it DRAIN. It lasts until `stoker nodes uncordon`, also when the server or the node is restarted.
    """
    _done(
        session.client().cordon(_node_name(name), why=why),
        as_json,
        lambda node: f"{name} is cordoned: nothing new is scheduled there",
    )


@command.command("drain")
@name_argument
@click.option(
    "--grace", metavar="TIME", help="Let what runs there run on for so long: 90s, 30m, 2h.  [default: not at all]"
)
@why_option
@session.json_option
def drain(name: str, grace: str | None, why: str, as_json: bool) -> None:
    """Give NODE nothing new, and empty it, as before maintenance.

    Who still runs there when the time is nearly over gets SIGTERM, and its own grace to write a checkpoint; it is queued again
    at once, and that costs it no retry. Without --grace everybody is asked now.
    """
    from stoker.simulate.request import span

    seconds = span(grace, "--grace") if grace else 0.0
    node = session.client().drain(_node_name(name), why=why, within_seconds=seconds)
    _done(node, as_json, lambda node: f"{name} is cordoned, and drains {_when(seconds)}{_who(node)}")


@command.command("uncordon")
@name_argument
@session.json_option
def uncordon(name: str, as_json: bool) -> None:
    """Give NODE work again, and forgive what it was to blame for."""
    _done(
        session.client().uncordon(_node_name(name)), as_json, lambda node: f"{name} is schedulable again" + _but(node)
    )


@command.command("add")
@click.argument("destinations", metavar="USER@HOST...", nargs=-1, required=True)
@click.option("--name", help="How the machine is called here; for one alone.  [default: HOST]")
@click.option("--gpus", default="auto", metavar="auto|N", help="How many GPUs of it may be used.  [default: all]")
@click.option(
    "--packages",
    type=click.Choice(["all", "ray"]),
    default="all",
    help="What programs find there: all that is installed beside this server, or Ray alone.  [default: all]",
)
@click.option(
    "--index-url", "index_urls", multiple=True, metavar="URL", help="Another index of packages. More than once."
)
@click.option(
    "--address", metavar="IP", help="This machine's address, as the others reach it.  [default: as they see it]"
)
@click.option(
    "--ssh-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="In the place of your own ~/.ssh/config.",
)
def add(
    destinations: tuple[str, ...],
    name: str | None,
    gpus: str,
    packages: str,
    index_urls: tuple[str, ...],
    address: str | None,
    ssh_config: Path | None,
) -> None:
    """Make machines nodes, by SSH: of a user there who need not be root, on Linux with sshd and no more.

    Python, Ray and packages are brought in the versions of this machine, and Ray is started there with the site's token; a
    unit of systemd keeps it, also after a reboot. No folder has to be shared: what jobs read and write lies with this server.
    """
    from stoker.cli.hosts import ThisSite, for_each, hosts_of
    from stoker.engines.ray.hosts.adding import name_of
    from stoker.engines.ray.hosts.book import Host

    if name and len(destinations) > 1:
        raise click.UsageError("--name is for one machine alone")
    if gpus != "auto" and not gpus.isdecimal():
        raise click.BadParameter(f"{gpus!r} is neither `auto` nor a number", param_hint="--gpus")
    site = ThisSite(session.config())
    hosts = hosts_of(site)

    def make(destination: str) -> None:
        began = time.monotonic()
        host = hosts.add(
            Host(
                name=name or name_of(destination),
                destination=destination,
                address="",
                gpus=gpus,
                packages=packages,
                index_options=tuple(f"--extra-index-url {url}" for url in index_urls),
                ssh_config=str(ssh_config.absolute()) if ssh_config else "",
            ),
            our_address=address or "",
        )
        found = site.nodes_at(host.address)
        size = f"{found[0]['vcpus']:g} vCPUs, {found[0]['memory_gb']:g} GB{_with_gpus(found[0])}" if found else ""
        show.done(f"{host.name} is a node: {size}, after {show.duration(time.monotonic() - began)}")

    if not for_each(destinations, make):
        raise SystemExit(1)
    show.note("  Next:  stoker nodes   ·   stoker run --workers 1 -- python train.py   ·   stoker nodes check")


@command.command("check")
@click.argument("names", metavar="[NAME...]", nargs=-1)
def check(names: tuple[str, ...]) -> None:
    """Look after machines that were added by SSH: what is wrong with them, and what to do. Without a name: all of them."""
    from stoker.cli.hosts import ThisSite, for_each, hosts_of

    site = ThisSite(session.config())
    hosts = hosts_of(site)
    are_well = True

    def look(name: str) -> None:
        nonlocal are_well
        problems = hosts.check(name)
        are_well = are_well and not problems
        for problem in problems:
            show.warn(f"{name}: {problem.what} → {problem.fix}")
        if not problems:
            show.done(f"{name} is well")

    if not for_each(names or _host_names(), look) or not are_well:
        raise SystemExit(1)


@command.command("upgrade")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--force", is_flag=True, help="Also where jobs run: they go on from their checkpoints.")
def upgrade(names: tuple[str, ...], force: bool) -> None:
    """Give machines that were added by SSH the versions of this machine, and start Ray there anew. Without a name: all."""
    from stoker.cli.hosts import ThisSite, for_each, hosts_of

    hosts = hosts_of(ThisSite(session.config()))

    def renew(name: str) -> None:
        host = hosts.upgrade(name, by_force=force)
        show.done(f"{host.name} has Ray {host.ray_version} and the packages of this machine")

    if not for_each(names or _host_names(), renew):
        raise SystemExit(1)


@command.command("remove")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Also where jobs run, or nobody answers: it is forgotten then.")
def remove(names: tuple[str, ...], force: bool) -> None:
    """Give back machines that were added by SSH: Ray is ended there, and what Stoker brought is removed."""
    from stoker.cli.hosts import ThisSite, for_each, hosts_of

    site = ThisSite(session.config())
    hosts = hosts_of(site)

    def give_back(name: str) -> None:
        host = hosts.remove(name, by_force=force)
        show.done(f"{host.name} is no longer a node")

    is_done = for_each(names, give_back)
    if is_done and not _host_names():
        site.leave_cluster()
    if not is_done:
        raise SystemExit(1)


def _hosts() -> list[Host]:
    """The machines that were added by SSH from this home; none where the server is another's."""
    from stoker.engines.ray.hosts.book import HostBook

    return [] if session.config()["url"] else HostBook(session.config().home).hosts()


def _host_names() -> list[str]:
    return [host.name for host in _hosts()]


def _node_name(name: str) -> str:
    """The node that a machine is that was added by this name; else what was said."""
    host = next((host for host in _hosts() if name in (host.name, host.destination)), None)
    nodes = session.client().nodes() if host is not None else []
    found = [node["name"] for node in nodes if host is not None and host.is_node(node["name"])]
    return found[-1] if found else name


def _with_gpus(node: Mapping[str, Any]) -> str:
    return f", {node['accelerators']} {node['accelerator']}" if node["accelerators"] else ""


def _list(as_json: bool) -> None:
    client = session.client()
    nodes, pools = client.nodes(), client.pools()
    if as_json:
        show.data({"nodes": nodes, "pools": pools})
        return
    hosts = _hosts()
    rows = [
        [
            node["name"],
            *([next((host.name for host in hosts if host.is_node(node["name"])), "")] if hosts else []),
            _state(node),
            "virtual" if node["virtual"] else node["engine"],
            node["machine_type"],
            _gpus(node),
            f"{node['vcpus']:g}" + (" (soft)" if node["soft"] else ""),
            f"{node['memory_gb']:g}" + (" (soft)" if node["soft"] else ""),
            ", ".join(node["jobs"]),
        ]
        for node in nodes
    ]
    headers = ["STATE", "KIND", "MACHINE_TYPE", "GPUS_FREE", "VCPUS", "MEMORY_GB", "JOBS"]
    show.table(["NAME", *(["HOST"] if hosts else []), *headers], rows)
    for host in hosts:
        if not any(host.is_node(node["name"]) and node["state"] == "UP" for node in nodes):
            show.warn(f"{host.name} is not a node now: stoker nodes check {host.name} says why")
    for node in nodes:
        if node["cordon"]:
            show.note(f"{node['name']}: {_cordon(node)}")
    if any(node["soft"] for node in nodes):
        show.note(
            "soft: one job alone may ask for more vCPUs and memory than there are; GPUs are always counted strictly"
        )
    most = max((node.get("most_replicas", 0) for node in nodes if node.get("shares_machine")), default=0)
    if most:
        show.note(f"this server's machine runs at most {most} replicas at a time, whichever of its nodes they are on")
    _show_pools(pools)


def _show_pools(pools: Sequence[Mapping[str, Any]]) -> None:
    """The pools of machines that are ordered when a job needs them."""
    if not pools:
        return
    click.echo()
    rows = [
        [
            pool["name"],
            f"{pool['there']} of {pool['most']}",
            pool["machine_type"] or f"{pool['vcpus']:g} vCPU, {pool['memory_gb']:g} GB",
            f"{pool['accelerators']} {pool['accelerator']}" if pool["accelerators"] else "",
            pool["zone"] or pool["region"],
            "spot" if pool["spot"] else "",
            "" if pool["usd_per_hour"] is None else f"{pool['usd_per_hour']:.2f}",
            "yes" if pool["takes_orders"] else "no",
        ]
        for pool in pools
    ]
    show.table(["POOL", "MACHINES", "MACHINE_TYPE", "GPUS", "WHERE", "SPOT", "USD_PER_HOUR", "TAKES_ORDERS"], rows)
    for pool in pools:
        if pool["cordon"]:
            show.note(f"pool:{pool['name']}: {_cordon(pool)}")
        elif not pool["takes_orders"] and pool["failures"]:
            last = pool["failures"][-1]
            show.note(f"pool:{pool['name']}: {show.ago(last['at'])}: {last['what']}")


def _fields(node: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("name", node["name"]),
        ("state", _state(node)),
        ("takes_work", "yes" if node["takes_work"] else "no"),
        ("cordon", _cordon(node) if node["cordon"] else ""),
        ("leaving_at", _in(node["leaving_at"]) if node["leaving_at"] else ""),
        ("engine", node["engine"] + (" (virtual)" if node["virtual"] else "")),
        ("region", node["region"]),
        ("zone", node["zone"]),
        ("machine_type", node["machine_type"]),
        ("gpus_free", _gpus(node)),
        ("vcpus", f"{node['vcpus']:g}"),
        ("memory_gb", f"{node['memory_gb']:g}"),
        ("replicas", _most_replicas(node)),
        ("lease_seconds", f"{node['lease_seconds']:g}" if node["lease_seconds"] else ""),
        ("jobs", ", ".join(node["jobs"])),
    ]


def _state(node: Mapping[str, Any]) -> str:
    """`UP`, `UP cordoned`, `DOWN drained`."""
    cordon = node["cordon"]
    word = "" if cordon is None else " cordoned" if cordon["empty_at"] is None else " drained"
    return str(node["state"]) + word + (" leaving" if node["leaving_at"] else "")


def _cordon(node: Mapping[str, Any]) -> str:
    cordon = node["cordon"]
    empty = f", to be empty {_in(cordon['empty_at'])}" if cordon["empty_at"] is not None else ""
    return f"cordoned by {cordon['by']} {show.ago(cordon['at'])}{empty}: {cordon['why']}"


def _in(moment: float) -> str:
    """How long until a moment: `in 29m58s`."""
    left = moment - time.time()
    return f"in {show.duration(left)}" if left > 0 else "now"


def _gpus(node: Mapping[str, Any]) -> str:
    """`2/4 T4`: so many of them are held by nobody; whether they can be had as well, is the node's affair."""
    if not node["accelerators"]:
        return ""
    usable = "" if node["takes_work"] or not node["accelerators_free"] else ", not usable"
    return f"{node['accelerators_free']:g}/{node['accelerators']} {node['accelerator']}{usable}"


def _most_replicas(node: Mapping[str, Any]) -> str:
    """`at most 200, with all other nodes of its machine`; empty of a server that does not tell."""
    most = node.get("most_replicas")
    return (
        f"at most {most}" + (", with all other nodes of its machine" if node.get("shares_machine") else "")
        if most
        else ""
    )


def _when(seconds: float) -> str:
    return f"within {show.duration(seconds)}" if seconds else "now"


def _who(node: Mapping[str, Any]) -> str:
    return f": {', '.join(node['jobs'])} will go on elsewhere" if node["jobs"] else ": nobody runs there"


def _but(node: Mapping[str, Any]) -> str:
    return "" if node["takes_work"] else f", as soon as it is UP (it is {_state(node)})"


def _done(node: Mapping[str, Any], as_json: bool, text: Callable[[Mapping[str, Any]], str]) -> None:
    if as_json:
        show.data(node)
    else:
        show.done(text(node))
