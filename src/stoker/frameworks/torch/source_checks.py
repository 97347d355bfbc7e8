"""What can be seen of a PyTorch program before it trains, by its source: whether it is one for Stoker to distribute."""

from __future__ import annotations

import os
from typing import Set

from stoker.frameworks.entry.program_source import first_use, main_file, says
from stoker.frameworks.messages import Refused
from stoker.frameworks.processes.cluster import Cluster

_KERAS = frozenset({"import keras", "import keras_hub", "import keras_nlp", "import keras_cv"})

_MACHINE_NUMBERS = frozenset(
    "rank local_rank world_size group_rank node_rank machine_rank nr nodes nnodes num_nodes num_machines tf_config cluster_spec "
    "slurm_nodeid slurm_procid stoker_index stoker_node".split()
)
"""Variables and options, in small letters, by which a program knows on which machine it is."""

_GRADIENTS = frozenset(
    "autograd.grad torch.autograd.grad func.grad torch.func.grad func.grad_and_value torch.func.grad_and_value func.vjp "
    "torch.func.vjp functorch.grad".split()
)
"""What computes gradients, but for `backward`."""


def trains_by_keras() -> bool:
    """Whether PyTorch is there for Keras."""
    return os.environ.get("KERAS_BACKEND") == "torch" or first_use(_KERAS, main_file()) is not None


def check_its_processes_meet(cluster: Cluster) -> None:
    """Raise Refused for a program that starts processes itself and takes its machine for the only one."""
    own = first_use(
        {"mp.spawn", "multiprocessing.spawn", "torch.multiprocessing.spawn", "start_processes"}, main_file()
    )
    machines = cluster.replicas // max(1, cluster.devices)
    if own is not None and machines > 1 and not says(_MACHINE_NUMBERS, main_file()):
        raise Refused(
            f"the program starts its processes itself ({own}) and does not ask which of {machines} replicas it is in: each "
            "would train everything",
            "ask for one replica with all of the GPUs, leave mp.spawn out (Stoker starts the processes), or count ranks from "
            "NODE_RANK on",
        )


def check_can_be_shared() -> None:
    """Raise Refused for what can be seen beforehand to train in another way than by optimizers of torch.optim."""
    own = first_use(_GRADIENTS, main_file())
    if own is not None and first_use({"optim", "step"}, main_file()) is None:
        raise Refused(
            f"the program computes gradients ({own}) and has no torch.optim optimizer: its weights would be each process's own",
            "let an optimizer step them (torch.optim.SGD), or say --distribute none",
        )


def check_devices(kinds: Set[str], has_gpus: bool) -> None:
    """Raise Refused where all that is trained is on processors, and there are GPUs. `kinds`: of their devices."""
    if has_gpus and kinds == {"cpu"}:
        raise Refused(
            "asked for a GPU for each process, and the program trains on the processors",
            'send the model and its batches there (model.to("cuda")), ask for no GPUs, or say --distribute none',
        )
