import torch
from torch import nn

generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(400):
    real, noise = torch.randn(16, 8), torch.randn(16, 4)
    c_opt.zero_grad()
    c_loss = critic(generator(noise).detach()).mean() - critic(real).mean()
    c_loss.backward()
    c_opt.step()
    g_opt.zero_grad()
    g_loss = -critic(generator(noise)).mean()
    g_loss.backward()
    g_opt.step()
