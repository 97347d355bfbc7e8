"""The site under names of ours, in base units: its jobs and queues, its machines, its server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import Metric as Family
from prometheus_client.core import GaugeMetricFamily, SummaryMetricFamily

from stoker import __version__
from stoker.api.services import Rounds, Services
from stoker.core.node import Node, NodeState
from stoker.core.world import World
from stoker.sampling.host import HOST_METRICS


def families_of(site: Services) -> Iterator[Family]:
    """The families of the site. Only jobs that are there now are counted: of those that have ended, the API tells."""
    build = GaugeMetricFamily("stoker_build_info", "1, with the version.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    yield GaugeMetricFamily("stoker_leads", "1: this server leads; 0: it stands by.", value=float(site.leads()))
    yield GaugeMetricFamily("stoker_problems", "How many things `stoker status` warns of.", value=len(site.problems()))
    with site.live.look() as world:
        found = list(_of_world(world, site.commands.clock.now()))
        names = [node.name for node in world.nodes.values() if not node.virtual]
    yield from found
    history = site.monitor.history
    if history is not None:
        left_out = Family("stoker_samples_left_out", "Samples that came too late, or too many of them.", "counter")
        left_out.add_sample("stoker_samples_left_out_total", {}, history.left_out)
        yield left_out
    yield from _of_loop(site.rounds())
    yield from site.answer_seconds.collect()
    yield from _of_goodput(site)
    yield from _of_hosts(site, names)


def _of_world(world: World, now: float) -> Iterator[Family]:
    jobs = GaugeMetricFamily("stoker_jobs", "Jobs that wait or run.", labels=["queue", "state"])
    counted = Counter((job.spec.queue, str(job.state)) for job in world.jobs.values())
    for labels, count in sorted(counted.items()):
        jobs.add_metric(labels, count)
    yield jobs
    oldest = GaugeMetricFamily(
        "stoker_queue_oldest_wait_seconds", "For how long the job waits that has waited the longest.", labels=["queue"]
    )
    held = {attempt.job for attempt in world.attempts.values()}
    waiting: dict[str, float] = {}
    for job in world.jobs.values():
        if job.id not in held:
            waiting[job.spec.queue] = max(waiting.get(job.spec.queue, 0.0), now - job.submitted_at)
    for queue, seconds in sorted(waiting.items()):
        oldest.add_metric([queue], seconds)
    yield oldest
    yield from _of_devices(world)


def _of_devices(world: World) -> Iterator[Family]:
    nodes = GaugeMetricFamily("stoker_nodes", "Machines.", labels=["accelerator", "state"])
    devices = GaugeMetricFamily(
        "stoker_accelerators", "GPUs, by whether a job holds them.", labels=["accelerator", "state"]
    )
    held = {
        (place.node, device)
        for attempt in world.attempts.values()
        for place in attempt.placements
        for device in place.devices
    }
    machines: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    for node in world.nodes.values():
        if node.virtual:
            continue
        state = _state(node, world)
        machines[node.accelerator, state] += 1
        for device in node.devices:
            counted[
                node.accelerator, "held" if (node.name, device) in held else "free" if state == "UP" else state
            ] += 1
    for labels, count in sorted(machines.items()):
        nodes.add_metric(labels, count)
    for labels, count in sorted(counted.items()):
        devices.add_metric(labels, count)
    yield nodes
    yield devices


def _state(node: Node, world: World) -> str:
    record = world.records.get(node.name)
    if node.state is NodeState.UP and record is not None and record.cordon is not None:
        return "CORDONED"
    return str(node.state)


def _of_loop(rounds: Rounds) -> Iterator[Family]:
    """Of this server, since it was started. One that stands by goes no rounds."""
    summary = SummaryMetricFamily("stoker_loop_round_seconds", "Rounds of the control loop.")
    summary.add_metric([], rounds.count, rounds.seconds)
    yield summary
    yield GaugeMetricFamily(
        "stoker_loop_longest_round_seconds", "The longest since the start.", value=rounds.longest_seconds
    )


def _of_goodput(site: Services) -> Iterator[Family]:
    """Of jobs that have ended: their ledgers do not change, so that the sums only grow."""
    found = Family("stoker_held_seconds", "What accelerators, or machines without any, were held for.", "counter")
    for (project, weight, phase), seconds in sorted(site.ledgers.totals().items()):
        labels = {"project": project, "of": weight, "phase": str(phase)}
        found.add_sample("stoker_held_seconds_total", labels, seconds)
    yield found


def _of_hosts(site: Services, nodes: list[str]) -> Iterator[Family]:
    """A machine's own numbers; ratios instead of percent, as Prometheus has it."""
    shown = [(node, site.monitor.host(node)) for node in sorted(nodes)]
    for metric in HOST_METRICS:
        is_percent = metric.name.endswith("_percent")
        name = f"stoker_node_{metric.name.removeprefix('host_')}"
        name = name.removesuffix("_percent") + "_ratio" if is_percent else name
        family = Family(name, metric.help, "counter" if metric.is_counter else "gauge")
        for node, values in shown:
            if metric.name in values:
                value = values[metric.name] / 100 if is_percent else values[metric.name]
                family.add_sample(f"{name}_total" if metric.is_counter else name, {"node": node}, value)
        if family.samples:
            yield family
