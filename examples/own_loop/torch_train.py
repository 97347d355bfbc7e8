"""A loop of its own, in PyTorch, that goes on where it was: handwritten digits from scikit-learn."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

from stoker import checkpoint

torch.manual_seed(1)
images, labels = load_digits(return_X_y=True)
digits = TensorDataset(torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels))
training, held_back = random_split(digits, [0.8, 0.2])
loader = DataLoader(training, batch_size=32, shuffle=True)

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

state = checkpoint.State(model=model, optimizer=optimizer, schedule=schedule, best=0.0)
for epoch in state.epochs(20):
    model.train()
    for batch, wanted in state.batches(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), wanted)
        loss.backward()
        optimizer.step()
    schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(batch).argmax(1) == wanted).sum()) for batch, wanted in DataLoader(held_back, batch_size=64)
        )
    state.best = max(state.best, right / len(held_back))
    print(f"epoch {epoch + 1}: {right / len(held_back):.1%} right, at best {state.best:.1%}")
