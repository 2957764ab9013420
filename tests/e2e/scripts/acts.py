"""Batches by hand, of a model that acts in each step and is validated now and then: both with gradients for nobody."""

import torch

torch.manual_seed(0)
x = torch.randn(640, 8)
y = x[:, :1].tanh()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def validate():
    model.eval()
    total = 0.0
    for k in range(512, 640, 64):
        total += torch.nn.functional.mse_loss(model(x[k : k + 64]), y[k : k + 64]).item()
    model.train()
    return total / 2


for step in range(400):
    if step % 10 == 0:
        print(f"step {step}: {validate():.4f}")
    action = model(x[step : step + 1]).item() > 0.0
    rows = torch.randint(256, (16,)) + 256 * action
    loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
