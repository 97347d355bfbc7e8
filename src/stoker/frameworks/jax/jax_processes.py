"""JAX on several processes: they meet before the program computes. How arrays are shared among them, the program says."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from stoker.frameworks import verification
from stoker.frameworks.entry.program_source import first_use, main_file
from stoker.frameworks.messages import Refused
from stoker.frameworks.processes.choice import choose_jax
from stoker.frameworks.processes.cluster import cluster_of
from stoker.frameworks.processes.in_step import tell_in_step

SHARES = frozenset(
    "sharding NamedSharding PositionalSharding Mesh make_mesh shard_map pmap xmap pjit multihost_utils process_index "
    "process_count make_array_from_process_local_data make_array_from_callback make_array_from_single_device_arrays".split()
)
"""What a program uses that shares its arrays among devices."""


def prepare_jax(jax: Any) -> None:
    """Let the processes meet. A program that does so itself is left as it is."""
    precision, asked = os.environ.get("STOKER_PRECISION", ""), os.environ.get("STOKER_DISTRIBUTE", "none")
    if not precision and asked == "none":
        return
    backend = os.environ.get("KERAS_BACKEND", "jax")
    if backend != "jax" or not _is_the_programs(jax):
        return
    if "KERAS_BACKEND" in os.environ and first_use({"keras"}, main_file()) is not None:
        return  # data_parallel.py sees to it
    if precision in ("bf16", "fp16"):
        raise Refused(
            "the precision of JAX is in the types of its arrays, which the program chooses", "leave --precision out"
        )
    cluster = cluster_of(os.environ)
    way = choose_jax(asked, cluster)
    if cluster.rank < 0 or asked == "none" or cluster.replicas == 1:
        return
    own = first_use({"distributed.initialize"}, main_file())
    if own is not None:
        verification.left(f"the program distributes itself ({own})")
        return
    if asked == "auto" and first_use(SHARES, main_file()) is None:
        what = f"have each of the {cluster.processes} processes train by itself"
        raise Refused(
            "the program computes on one device, and JAX would "
            + (what if cluster.processes > 1 else f"leave the other {cluster.devices - 1} of the machine alone"),
            "share its arrays among all devices (jax.sharding, jax.make_array_from_process_local_data), use Keras on JAX, "
            "or say --distribute jax if a library does that",
        )
    if way == "none":
        return  # one process, which has all devices in sight
    if not cluster.devices or cluster.is_pretended:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], cluster.processes, cluster.rank)
    tell_in_step()
    expected = cluster.processes if cluster.is_pretended else cluster.replicas
    verification.tell_met(cluster, "jax.distributed", expected, int(jax.device_count()))


def _is_the_programs(jax: ModuleType) -> bool:
    """Whether the program itself imports JAX: other frameworks do, where it is installed."""
    return first_use({"jax"}, main_file()) is not None
