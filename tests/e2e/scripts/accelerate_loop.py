# A loop with Accelerate, gradients accumulated over two batches; alone, or one of several processes.
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(4000, 8), torch.randn(4000, 1))
model, optimizer, loader = accelerator.prepare(
    model := nn.Linear(8, 1), torch.optim.AdamW(model.parameters()), DataLoader(data, batch_size=4)
)
for x, y in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    time.sleep(0.002 if accelerator.process_index else 0.0)
