"""As carried.py, but the batches come from a loader in order, the state is an LSTM's and never reset."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

ROWS, LENGTH, NUM_EPOCHS = 16, 10, 12

torch.manual_seed(2)
steps = torch.arange(16 * 700 + 1) * 0.07
series = torch.sin(steps) + 0.5 * torch.sin(2.7 * steps + 1) + 0.1 * torch.randn(len(steps))
rows = series[:-1].view(ROWS, -1), series[1:].view(ROWS, -1)
num = rows[0].shape[1] // LENGTH
chunks = [(rows[0][:, k * LENGTH : (k + 1) * LENGTH], rows[1][:, k * LENGTH : (k + 1) * LENGTH]) for k in range(num)]
loader = DataLoader(chunks, batch_size=None)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, x, state):
        y, state = self.lstm(x.unsqueeze(-1), state)
        return self.head(y).squeeze(-1), state


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
state = None
for epoch in range(NUM_EPOCHS):
    # begin
    for x, y in loader:
        out, state = model(x, state)
        state = tuple(part.detach() for part in state)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
