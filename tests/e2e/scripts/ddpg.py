"""DDPG on a pendulum of one's own, as it is commonly written: two networks, their targets, a replay buffer."""

import copy
import math
import random
from collections import deque

import torch
from torch import nn

GAMMA, TAU, BATCH = 0.99, 0.005, 256


class Actor(nn.Module):
    def __init__(self, state_dim, action_dim, hidden=256):
        super().__init__()
        self.l1 = nn.Linear(state_dim, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, action_dim)

    def forward(self, state):
        return torch.tanh(self.l3(torch.relu(self.l2(torch.relu(self.l1(state))))))


class Critic(nn.Module):
    def __init__(self, state_dim, action_dim, hidden=512):
        super().__init__()
        self.l1 = nn.Linear(state_dim + action_dim, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, 1)

    def forward(self, state, action):
        return self.l3(torch.relu(self.l2(torch.relu(self.l1(torch.cat([state, action], 1))))))


class DDPG:
    def __init__(self, state_dim, action_dim):
        self.actor = Actor(state_dim, action_dim)
        self.actor_target = copy.deepcopy(self.actor)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-4)
        self.critic = Critic(state_dim, action_dim)
        self.critic_target = copy.deepcopy(self.critic)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def select_action(self, state):
        with torch.no_grad():
            return self.actor(state.unsqueeze(0)).squeeze(0)

    def train(self, batch):
        state, action, reward, next_state = (torch.stack(part) for part in zip(*batch, strict=True))
        with torch.no_grad():
            target_q = reward + GAMMA * self.critic_target(next_state, self.actor_target(next_state))
        critic_loss = nn.functional.mse_loss(self.critic(state, action), target_q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(state, self.actor(state)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        for net, target in ((self.critic, self.critic_target), (self.actor, self.actor_target)):
            for param, target_param in zip(net.parameters(), target.parameters(), strict=True):
                target_param.data.copy_(TAU * param.data + (1 - TAU) * target_param.data)


def swing(state, action):
    angle, speed = math.atan2(state[1], state[0]), state[2].item()
    speed = max(-8.0, min(8.0, speed + 0.05 * (15 * math.sin(angle) + 6 * action.item())))
    angle += 0.05 * speed
    reward = -(angle**2 + 0.1 * speed**2)
    return torch.tensor([math.cos(angle), math.sin(angle), speed]), torch.tensor([reward])


def main():
    random.seed(0)
    torch.manual_seed(0)
    policy = DDPG(3, 1)
    buffer = deque(maxlen=10_000)
    state = torch.tensor([-1.0, 0.0, 0.0])
    for _ in range(4000):
        action = (policy.select_action(state) + 0.1 * torch.randn(1)).clamp(-1, 1)
        next_state, reward = swing(state, action)
        buffer.append((state, action, reward, next_state))
        state = next_state
        if len(buffer) >= BATCH:
            policy.train(random.sample(buffer, BATCH))


if __name__ == "__main__":
    main()
