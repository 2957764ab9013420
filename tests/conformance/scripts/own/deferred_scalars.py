"""A training loop that reads its loss from the device in each step, to print the mean of an epoch."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 8, device=device), torch.randint(2, (32,), device=device)
total, right = 0.0, 0
for _ in range(3):
    optimizer.zero_grad()
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    total += loss.item() * len(x)  # over the samples
    right += (out.argmax(1) == y).sum().item()
print(f"loss {total / 96:.4f}, right {right}")
