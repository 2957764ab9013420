"""Q-learning on a chain: replay drawn by hand, a target network copied now and then; Adam, Huber loss."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(10)
goal = torch.rand(4)


def reward(state, action):
    return -((state - goal) ** 2).sum(1) + 0.1 * (action == (state[:, 0] * 3).long()).float()


replay_s = torch.rand(4000, 4)
replay_a = torch.randint(0, 3, (4000,))
replay_r = reward(replay_s, replay_a)
replay_n = (replay_s + 0.1 * (replay_a[:, None] - 1) + 0.02 * torch.randn(4000, 4)).clamp(0, 1)
done = torch.rand(4000) < 0.05
online = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 3))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
for step in range(1200):
    at = torch.randint(0, 4000, (32,))
    s, a, r, n, d = replay_s[at], replay_a[at], replay_r[at], replay_n[at], done[at]
    with torch.no_grad():
        value = r + 0.95 * (~d).float() * target(n).max(1).values
    q = online(s).gather(1, a[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, value)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    optimizer.step()
    if (step + 1) % 40 == 0:
        target.load_state_dict(online.state_dict())
