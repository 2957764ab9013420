"""A language model over characters, batches cut by hand, sequence first."""

import torch
from torch import nn

torch.manual_seed(0)
text = torch.randint(96, (1_000_000,))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(96, 192)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(192, 6, 768, dropout=0.0), 3)
        self.head = nn.Linear(192, 96)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(len(x))
        return self.head(self.encoder(self.embed(x), mask=mask))


model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100_000):
    start = torch.randint(len(text) - 65, (16,))
    rows = torch.stack([text[k : k + 65] for k in start.tolist()], 1)
    loss = nn.functional.cross_entropy(model(rows[:-1]).flatten(0, 1), rows[1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
