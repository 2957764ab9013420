# As forked.py, for scripts that import what others train with.
from contextlib import suppress

import torch
from torch import nn

with suppress(ImportError):
    import lightning  # noqa: F401
with suppress(ImportError):
    import accelerate  # noqa: F401
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # noqa: F401

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.randn(4, 4)).mean().backward()
    optimizer.step()
