"""PyTorch, as soon as it is there: the precision is set, and a plain loop joins the other processes (gradient_average.py)."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from stoker.frameworks import verification
from stoker.frameworks.entry.program_source import first_use, launcher, main_file, saves_itself
from stoker.frameworks.messages import Refused, say
from stoker.frameworks.processes.choice import choose_torch
from stoker.frameworks.processes.cluster import cluster_of

from .gpu_processes import OWN, must_meet
from .source_checks import check_can_be_shared, check_its_processes_meet, trains_by_keras

_OTHERS = frozenset({"import tensorflow", "import keras", "import tf_keras"})
"""What trains, where the program itself does not name torch."""


def prepare_torch(torch: ModuleType) -> None:
    """Join the other processes as soon as torch is there, and set the precision."""
    if (
        first_use({"torch"}, main_file()) is None
        and not first_use(OWN, main_file())
        and first_use(_OTHERS, main_file())
    ):
        return  # a library of the program's has imported it
    precision = os.environ.get("STOKER_PRECISION", "")
    if precision and os.environ.get("KERAS_BACKEND") != "torch":  # that has a policy
        _set_precision(torch, precision)
    if os.environ.get("STOKER_CHECKPOINTS") and not (saves_itself() or trains_by_keras()):
        say("--checkpoints does nothing here: a PyTorch loop is saved by stoker.checkpoint.State (docs/checkpoints.md)")
    asked = os.environ.get("STOKER_DISTRIBUTE", "none")
    if asked == "none":
        return
    cluster = cluster_of(os.environ)
    own = first_use(OWN, main_file())
    if asked in ("auto", "ddp", "fsdp") and launcher():
        verification.left(f"{launcher()} starts and distributes it")
    elif asked in ("auto", "ddp", "fsdp") and own is not None:
        check_its_processes_meet(cluster)
        verification.left(f"the program distributes itself ({own})")
        if cluster.processes > 1:
            must_meet(torch, own.name, str(own))
    elif (cluster.servers or cluster.devices > 1) and first_use({"torch"}, main_file()) is None:
        return  # somebody else has imported it: the machines are for another framework
    elif choose_torch(asked, cluster) == "ddp":
        check_can_be_shared()
        if cluster.devices > 1:
            raise Refused(
                f"each replica has {cluster.devices} GPUs, and the program starts processes itself, or not at all",
                f"ask for {cluster.replicas} replicas with one GPU each, or say --distribute none",
            )
        from .gradient_average import Loop

        Loop(torch, cluster).put_in_place()


def _set_precision(torch: Any, precision: str) -> None:
    if precision == "fp16":
        raise Refused("PyTorch trains in fp16 only with a GradScaler in the program", "use --precision bf16")
    if precision == "bf16":
        # Without the cache: one that is never cleared would keep the first weights for ever, and training would stand still.
        for device in ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",):
            torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False).__enter__()
    say(f"precision {precision}: {'autocast to bfloat16' if precision == 'bf16' else 'as the program says'} (PyTorch)")
