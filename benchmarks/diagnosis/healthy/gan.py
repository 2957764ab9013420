"""A GAN with two optimizers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 784))
critic = nn.Sequential(
    nn.Linear(784, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)
)
of_generator = torch.optim.SGD(generator.parameters(), lr=1e-3)
of_critic = torch.optim.SGD(critic.parameters(), lr=1e-3)
loss_fn = nn.BCEWithLogitsLoss()
loader = DataLoader(TensorDataset(torch.randn(2048, 784)), batch_size=256, shuffle=True)
for epoch in range(10_000):
    for (real,) in loader:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), 64))
        of_critic.zero_grad()
        (loss_fn(critic(real), ones) + loss_fn(critic(fake.detach()), zeros)).backward()
        of_critic.step()
        of_generator.zero_grad()
        loss_fn(critic(fake), ones).backward()
        of_generator.step()
