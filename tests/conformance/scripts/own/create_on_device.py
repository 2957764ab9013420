"""Labels of ones and zeros that are made on the host in each step."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 8, device=device)
for _ in range(3):
    optimizer.zero_grad()
    y = torch.ones(32, 1).to(device)  # real
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
