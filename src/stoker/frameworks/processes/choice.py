"""Which way of training together a program gets, by what was asked for and by who trains. Pure."""

from __future__ import annotations

from stoker.frameworks.messages import Refused

from .cluster import Cluster

_OF = {"mirrored": "Keras", "multiworker": "Keras", "ps": "Keras", "ddp": "PyTorch", "fsdp": "PyTorch", "jax": "JAX"}


def choose_keras(asked: str, cluster: Cluster, *, is_legacy: bool = False) -> str:
    """`mirrored`, `multiworker`, `ps` or `none`, for Keras on TensorFlow. `is_legacy`: tf_keras. Raises Refused."""
    _check_framework(asked, "Keras on TensorFlow", ("mirrored", "multiworker", "ps"))
    if cluster.role == "evaluator":
        return "none"
    if asked == "ps" or (cluster.servers and asked not in ("", "none")):
        return _served(asked, cluster, is_legacy)
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


def _served(asked: str, cluster: Cluster, is_legacy: bool) -> str:
    if not cluster.servers:
        raise Refused(
            "--distribute ps is for parameter servers, and the job has none",
            "ask for some (--parameter-server-count), or use --distribute auto",
        )
    if asked not in ("auto", "ps"):
        raise Refused(
            f"--distribute {asked} has no use for the job's {cluster.servers} parameter servers",
            "leave them out, or use --distribute ps with tf_keras",
        )
    if not is_legacy:
        raise Refused(
            "fit of Keras 3 does not train with parameter servers",
            "use tf_keras (TF_USE_LEGACY_KERAS=1), leave the parameter servers out, or write the loop as in "
            "examples/parameter_server",
        )
    if cluster.is_chief and cluster.processes < 2:
        raise Refused("the chief hands out the steps, and there is no worker to do them", "ask for at least one worker")
    return "ps"


def choose_torch(asked: str, cluster: Cluster) -> str:
    """`ddp` or `none`, for a PyTorch loop that does not distribute itself. Raises Refused."""
    _check_framework(asked, "PyTorch", ("ddp", "fsdp"))
    _check_servers(asked, "PyTorch", cluster)
    if cluster.rank < 0 or asked == "none" or cluster.replicas == 1:
        return "none"
    if asked == "fsdp":
        raise Refused(
            "--distribute fsdp needs a program that shards its model itself (torch.distributed.fsdp.fully_shard), and this one "
            "does not",
            "use --distribute ddp, which needs no change",
        )
    return "ddp"


def choose_jax(asked: str, cluster: Cluster) -> str:
    """`jax` or `none`. Raises Refused."""
    _check_framework(asked, "JAX", ("jax",))
    _check_servers(asked, "JAX", cluster)
    return "none" if cluster.rank < 0 or asked == "none" or cluster.processes == 1 else "jax"


def _check_servers(asked: str, framework: str, cluster: Cluster) -> None:
    if cluster.servers and asked not in ("", "none"):
        raise Refused(
            f"{framework} does not train with parameter servers, and the job has {cluster.servers}",
            "leave them out: workers exchange gradients among themselves",
        )


def _check_framework(asked: str, framework: str, known: tuple[str, ...]) -> None:
    if asked not in ("", "none", "auto", *known):
        raise Refused(
            f"--distribute {asked} is for {_OF.get(asked, 'nothing that Stoker knows')}, and the program uses {framework}",
            f"use --distribute auto or {' or '.join(known)}",
        )
