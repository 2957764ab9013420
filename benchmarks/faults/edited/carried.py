"""Characters by a GRU whose state is carried from batch to batch and reset at each epoch; Adam, clipping."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS, LENGTH, NUM_EPOCHS = 16, 12, 8

torch.manual_seed(2)
text = (torch.__doc__ + nn.Module.__doc__ + F.cross_entropy.__doc__ + torch.optim.Adam.__doc__ + nn.GRU.__doc__)[:20000]
alphabet = sorted(set(text))
ids = torch.tensor([alphabet.index(c) for c in text])
columns = len(ids) // ROWS
data = ids[: ROWS * columns].view(ROWS, columns)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(alphabet), 32)
        self.drop = nn.Dropout(0.1)
        self.gru = nn.GRU(32, 48, batch_first=True)
        self.head = nn.Linear(48, len(alphabet))

    def forward(self, x, state):
        y, state = self.gru(self.drop(self.embed(x)), state)
        return self.head(y), state


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
state = None
for epoch in range(NUM_EPOCHS):
    state = torch.zeros(1, ROWS, 48)
    total = 0.0
    for begin in range(0, columns - LENGTH - 1, LENGTH):
        x = data[:, begin : begin + LENGTH]
        y = data[:, begin + 1 : begin + LENGTH + 1]
        out, state = model(x, state)
        state = state.detach()
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total:.3f}")
