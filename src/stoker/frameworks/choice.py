"""Which way of training together a program gets, by what was asked for and by who trains. Pure."""

from __future__ import annotations

from .cluster import Cluster
from .words import Refused

_OF = {"mirrored": "Keras", "multiworker": "Keras", "ddp": "PyTorch", "fsdp": "PyTorch", "jax": "JAX"}


def choose_keras(asked: str, cluster: Cluster) -> str:
    """`mirrored`, `multiworker` or `none`, for Keras on TensorFlow. Raises Refused."""
    _check_framework(asked, "Keras on TensorFlow", ("mirrored", "multiworker"))
    if cluster.rank < 0 or asked == "none":
        return "none"
    if asked == "mirrored" and cluster.processes > 1:
        raise Refused(
            f"--distribute mirrored is for one machine, and {cluster.processes} take part",
            "use --distribute multiworker, or ask for no workers and more GPUs for the chief",
        )
    if cluster.processes > 1:
        return "multiworker"
    return "mirrored" if cluster.devices > 1 else "none"


def choose_torch(asked: str, cluster: Cluster) -> str:
    """`ddp` or `none`, for a PyTorch loop that does not distribute itself. Raises Refused."""
    _check_framework(asked, "PyTorch", ("ddp", "fsdp"))
    if cluster.rank < 0 or asked == "none" or cluster.replicas == 1:
        return "none"
    if asked == "fsdp":
        raise Refused(
            "--distribute fsdp needs a program that shards its model itself (torch.distributed.fsdp.fully_shard), and this one "
            "does not",
            "use --distribute ddp, which needs no change",
        )
    if cluster.devices > 1:
        raise Refused(
            f"each replica has {cluster.devices} GPUs, and a plain PyTorch loop uses one for each process",
            f"ask for {cluster.replicas} replicas with one GPU each",
        )
    return "ddp"


def choose_jax(asked: str, cluster: Cluster) -> str:
    """`jax` or `none`. Raises Refused."""
    _check_framework(asked, "JAX", ("jax",))
    return "none" if cluster.rank < 0 or asked == "none" or cluster.processes == 1 else "jax"


def _check_framework(asked: str, framework: str, known: tuple[str, ...]) -> None:
    if asked not in ("", "none", "auto", *known):
        raise Refused(
            f"--distribute {asked} is for {_OF.get(asked, 'nothing that Stoker knows')}, and the program uses {framework}",
            f"use --distribute auto or {' or '.join(known)}",
        )
