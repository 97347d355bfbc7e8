"""A PyTorch program whose trouble is chosen, and that prints how long it waited: `torch_program.py KIND SECONDS [NUMBER]`."""

import os
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

KIND, SECONDS = sys.argv[1], float(sys.argv[2])
NUMBER = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
MOST_STEPS = int(os.environ.get("MOST_STEPS", "0"))
torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)


class Slow(Dataset):
    """Items that take their time: by sleeping, by computing, or by reading."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if KIND == "sleeps":
            time.sleep(0.002 * NUMBER)
        elif KIND == "augments":
            image = rng.standard_normal((96, 96))
            for _ in range(int(4 * NUMBER)):
                image = np.real(np.fft.ifft2(np.fft.fft2(image) * 0.99))
        elif KIND == "reads":
            for _ in range(int(60 * NUMBER)):
                with open(PATH, "rb") as file:
                    file.seek(int(rng.integers(0, 4000)) * 4096)
                    file.read(4096)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return torch.ones(256)


PATH = "data.bin"
if KIND == "reads":
    with open(PATH, "wb") as file:
        file.write(os.urandom(16 << 20))
        os.fsync(file.fileno())

if KIND == "convolves":
    model = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 16, 16)), torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3),
        torch.nn.Flatten(), torch.nn.Linear(32 * 144, 1),
    )  # fmt: skip
else:
    width = {"tiny": 16, "deep": 512}.get(KIND, 768)
    layers = [torch.nn.Linear(256, width), *(torch.nn.Linear(width, width) for _ in range(6 if KIND == "deep" else 2))]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
optimizer = (torch.optim.Adam if KIND in ("deep", "recurs") else torch.optim.SGD)(model.parameters(), 1e-4)
batch = int(NUMBER) if KIND == "tiny" else 64
is_slow = KIND in ("sleeps", "augments", "reads")
ready = TensorDataset(torch.ones(64 * 50, 256))
loader = DataLoader(Slow() if is_slow else ready, batch_size=batch, num_workers=1 if KIND == "workers" else 0)
late = KIND == "straggles" and os.environ.get("STOKER_ROLE") == "worker"


class SlowModel(torch.nn.Module):
    """Its forward pass takes longer on one replica."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        if late:
            time.sleep(0.03 * NUMBER)
        return self.inner(inputs)


model = SlowModel(model)
began, waited, stepped, steps = time.time(), 0.0, 0.0, 0


def is_over():
    """After some time; several in step do as many steps each."""
    return steps >= MOST_STEPS if MOST_STEPS else time.time() > began + SECONDS


while not is_over():
    asked = time.perf_counter()
    for found in loader:
        got = time.perf_counter()
        inputs = found[0] if isinstance(found, (list, tuple)) else found
        optimizer.zero_grad()
        for _ in range(int(NUMBER) if KIND == "accumulates" else 1):
            model(inputs).pow(2).mean().backward()
        optimizer.step()
        steps += 1
        done = time.perf_counter()
        waited, stepped, asked = waited + got - asked, stepped + done - got, time.perf_counter()
        if KIND == "saves" and steps % 20 == 0:
            torch.save(model.state_dict(), "mine.pt")
            time.sleep(0.3 * NUMBER)
            asked = time.perf_counter()
        if is_over():
            break
    if KIND == "evaluates":
        model.eval()
        with torch.no_grad():
            for (inputs,) in DataLoader(TensorDataset(torch.ones(64 * 10, 256)), batch_size=64):
                model(inputs)
                time.sleep(0.05 * NUMBER)
        model.train()
print(f"truth: {waited / (waited + stepped):.3f} of its time waiting for data, {steps} steps")
