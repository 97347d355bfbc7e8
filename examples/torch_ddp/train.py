"""Train a digit classifier with DistributedDataParallel: one process per replica, wired by the environment alone.

MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE say who is who. Without them this is a training run of one process.
If STOKER_CHECKPOINT_DIR is set, the newest checkpoint there is restored at the start, and one is saved every epoch.
A rank which loses another one cannot go on: it leaves with exit code 143, to be run again.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

STOPPED = 143  # 128 + SIGTERM: stopped from outside, to be run again
HELD_OUT = 360  # images that training never sees


def main() -> None:
    arguments = parse_arguments()
    if "RANK" not in os.environ:  # not started as a job: a group of one, at any free port
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if use_gpu else "gloo")  # returns when every rank is there
    rank, world_size = dist.get_rank(), dist.get_world_size()

    def say(text: str) -> None:
        print(f"rank {rank}: {text}", flush=True)

    say(f"{world_size} in all · batch per rank {arguments.batch_size} · {dist.get_backend()} on {device}")

    torch.manual_seed(7)
    train, test = load()
    sampler = DistributedSampler(train, world_size, rank, seed=7)  # each rank reads its own share
    batches = DataLoader(train, arguments.batch_size, sampler=sampler)
    network = DistributedDataParallel(build().to(device))  # averages the gradients of all ranks
    optimizer = torch.optim.Adam(network.parameters(), arguments.learning_rate)

    checkpoint = find_checkpoint()
    first_epoch = restore(checkpoint, network, optimizer) if checkpoint and checkpoint.exists() else 0
    say(f"restored {checkpoint} · epoch {first_epoch}" if first_epoch else "no checkpoint: starting anew")

    for epoch in range(first_epoch, arguments.epochs):
        began, total = time.monotonic(), 0.0
        sampler.set_epoch(epoch)  # another order every epoch, the same one when run again
        for images, labels in batches:
            loss = nn.functional.cross_entropy(network(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if checkpoint and rank == 0:
            save(checkpoint, network, optimizer, epoch + 1)
        accuracy, seconds = measure(network.module, test, device), time.monotonic() - began
        progress = f"loss {total / len(batches):.4f} · accuracy {accuracy:.4f} · {seconds:.1f} s"
        say(f"epoch {epoch + 1}/{arguments.epochs} · {len(batches)} steps · {progress}")

    say(f"accuracy {measure(network.module, test, device):.4f}")
    dist.barrier()  # leave together
    dist.destroy_process_group()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="per rank")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--job-dir", type=Path, help="given to every program of a job that has one; not used here")
    return parser.parse_args()


def load() -> tuple[TensorDataset, TensorDataset]:
    """The digits that come with scikit-learn: what to train on, and what to test with."""
    pixels, digits = load_digits(return_X_y=True)
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
    images = (torch.tensor(pixels, dtype=torch.float32) / 16)[order]
    labels = torch.tensor(digits, dtype=torch.int64)[order]
    return TensorDataset(images[HELD_OUT:], labels[HELD_OUT:]), TensorDataset(images[:HELD_OUT], labels[:HELD_OUT])


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def find_checkpoint() -> Path | None:
    folder = os.environ.get("STOKER_CHECKPOINT_DIR")
    return Path(folder) / "latest.pt" if folder else None


def restore(checkpoint: Path, network, optimizer) -> int:
    """Load what was saved, on every rank; return the epochs already done."""
    saved = torch.load(checkpoint, map_location="cpu")
    network.module.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epochs_done"]


def save(checkpoint: Path, network, optimizer, epochs_done: int) -> None:
    """Write under another name first, so that a run killed meanwhile leaves the last checkpoint whole."""
    state = {"network": network.module.state_dict(), "optimizer": optimizer.state_dict(), "epochs_done": epochs_done}
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    draft = checkpoint.with_suffix(".draft")
    torch.save(state, draft)
    draft.replace(checkpoint)


@torch.no_grad()
def measure(network: nn.Module, test: TensorDataset, device: torch.device) -> float:
    """The share of held-out images that the network reads rightly. The same on every rank."""
    images, labels = (tensor.to(device) for tensor in test.tensors)
    return (network(images).argmax(dim=1) == labels).float().mean().item()


def is_loss_of_a_rank(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        if not is_loss_of_a_rank(error):
            raise
        print(f"another rank went away: {str(error).splitlines()[0]}", flush=True)
        sys.exit(STOPPED)
