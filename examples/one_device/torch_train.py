"""Train a digit classifier with PyTorch on one device. There is nothing in it of clusters."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
pixels, digits = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits))
train = DataLoader(torch.utils.data.Subset(data, range(1440)), batch_size=24, shuffle=True)
test = DataLoader(torch.utils.data.Subset(data, range(1440, len(data))), batch_size=256)

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
steps = 0
for epoch in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
    model.train()
    for images, labels in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        steps += 1
    model.eval()
    with torch.no_grad():
        right = sum((model(images.to(device)).argmax(1).cpu() == labels).sum().item() for images, labels in test)
    print(f"epoch {epoch + 1}: accuracy {right / len(test.dataset):.3f}")
print(f"accuracy {right / len(test.dataset):.3f} after {steps} steps")
