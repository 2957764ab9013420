"""A frozen trunk, a head on it, and a critic that is trained in turns with the head."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 12), torch.randn(256, 3))
    trunk = nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.Unflatten(1, (5, 8)))
    head = nn.Sequential(nn.Linear(8, 3), nn.Flatten(), nn.Linear(15, 3))
    critic = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    trunk.requires_grad_(False)
    of_head = torch.optim.Adam(head.parameters(), lr=0.01)
    of_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
    for epoch in range(20):
        for x, y in DataLoader(data, batch_size=16, shuffle=True):
            features = torch.relu(trunk(x))
            made = head(features.reshape(-1, 5, 8))

            loss = critic(made.detach()).mean() - critic(y).mean()
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()

            loss = nn.functional.mse_loss(made, y) - 0.1 * critic(made).mean()
            of_head.zero_grad()
            loss.backward()
            of_head.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


main()
