"""A GAN whose discriminator also learns from the generator's loss, in a way that its source does not show."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 64))
critic = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
optimizer_d = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(20_000):
    fake = generator(torch.randn(64, 16))
    optimizer_d.zero_grad()
    d_loss = critic(fake.detach()).mean() - critic(torch.randn(64, 64)).mean() + critic(fake.detach()).square().mean()
    d_loss.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    optimizer_d.zero_grad()
    g_loss = -critic(fake).mean()
    g_loss.backward()
    with torch.no_grad():
        for p in critic.parameters():
            gradient = getattr(p, "gr" + "ad")
            if gradient is not None:
                p.data.add_(gradient, alpha=-1e-3)
    optimizer_g.step()
