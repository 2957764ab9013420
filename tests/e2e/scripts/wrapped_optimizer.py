# An optimizer around another one, and a schedule: one update a step.
import torch
from torch import nn


class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner, every=5):
        self.inner, self.every, self.made = inner, every, 0
        super().__init__(inner.param_groups, {})
        self.slow = [[p.detach().clone() for p in group["params"]] for group in self.param_groups]

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.inner.step(closure)
        self.made += 1
        if self.made % self.every == 0:
            for group, slow in zip(self.param_groups, self.slow, strict=True):
                for p, s in zip(group["params"], slow, strict=True):
                    s.lerp_(p, 0.5)
                    p.copy_(s)
        return loss


model = nn.Linear(6, 2)
optimizer = Lookahead(torch.optim.Adam(model.parameters(), lr=0.01))
schedule = torch.optim.lr_scheduler.StepLR(optimizer.inner, 50, 0.5)
for _ in range(200):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).pow(2).mean().backward()
    optimizer.step()
    schedule.step()
