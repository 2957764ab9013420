# One optimizer step an episode, as in pytorch/examples (reinforcement_learning/reinforce.py); the environment is a pole
# on a cart. Episodes grow: a length that rises with them stands for a policy that learns, so that all runs are alike.
import math
import random

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
random.seed(0)


class Pole:
    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, speed, angle, turning = self.state
        force = 10.0 if action else -10.0
        push = (force + 0.05 * turning**2 * math.sin(angle)) / 1.1
        falls = (9.8 * math.sin(angle) - math.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        moves = push - 0.05 * falls * math.cos(angle) / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * moves, angle + 0.02 * turning, turning + 0.02 * falls]
        if abs(self.state[2]) > 0.2:
            self.reset()
        return self.state, 1.0


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 128)
        self.dropout = nn.Dropout(p=0.6)
        self.second = nn.Linear(128, 2)
        self.log_probs = []
        self.rewards = []

    def forward(self, x):
        return self.second(self.dropout(self.first(x)).relu()).softmax(dim=1)


def choose(state):
    probs = policy(torch.tensor(state).unsqueeze(0))
    m = Categorical(probs)
    action = m.sample()
    policy.log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    value, returns = 0.0, []
    for reward in reversed(policy.rewards):
        value = reward + 0.99 * value
        returns.insert(0, value)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = torch.cat([-p * r for p, r in zip(policy.log_probs, returns, strict=True)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del policy.log_probs[:], policy.rewards[:]


env, policy = Pole(), Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
torch.set_num_threads(1)
for episode in range(2000):
    state = env.reset()
    for _ in range(10 + episode // 3):
        state, reward = env.step(choose(state))
        policy.rewards.append(reward)
    finish_episode()
