"""A VAE of digits: draws in the forward pass, KL annealed by epoch, batch normalisation; Adam, cosine schedule by epoch."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU())
        self.mean, self.log_var = nn.Linear(48, 6), nn.Linear(48, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        h = self.encoder(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(z), mean, log_var


torch.manual_seed(9)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32) / 16
loader = DataLoader(TensorDataset(images[:1510]), batch_size=16, shuffle=True)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for epoch in range(10):
    model.train()
    beta = min(1.0, (epoch + 1) / 4)
    total = 0.0
    for (x,) in loader:
        out, mean, log_var = model(x)
        rebuilt = F.binary_cross_entropy_with_logits(out, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum() / len(x)
        loss = rebuilt + beta * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    print(f"epoch {epoch} loss {total / len(loader):.3f}")
