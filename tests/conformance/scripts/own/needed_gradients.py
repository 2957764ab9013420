"""A generator that is trained through its critic, as most write it."""

import torch
from torch import nn

model, critic = nn.Linear(4, 8), nn.Linear(8, 1)
generator_optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)

for _ in range(3):
    real, fake = torch.randn(16, 8), model(torch.randn(16, 4))
    critic_optimizer.zero_grad()
    c_loss = critic(fake.detach()).mean() - critic(real).mean()
    c_loss.backward()
    critic_optimizer.step()
    generator_optimizer.zero_grad()
    g_loss = -critic(fake).mean()
    g_loss.backward()  # wasteful
    generator_optimizer.step()  # needs it
