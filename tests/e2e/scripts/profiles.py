# Runs a profiler of its own, and needs what it shows.
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

seen = []


def ready(profiler):
    seen.append({event.key for event in profiler.key_averages()})


model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
plan = schedule(wait=2, warmup=1, active=4, repeat=2)
with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready) as profiler:
    for _ in range(40):
        optimizer.zero_grad()
        model(torch.randn(8, 6)).pow(2).mean().backward()
        optimizer.step()
        profiler.step()
assert len(seen) == 2
assert all("aten::addmm" in keys for keys in seen)
assert any(key.startswith("Optimizer.step#SGD.step") for key in seen[0])
