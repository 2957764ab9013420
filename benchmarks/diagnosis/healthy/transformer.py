"""A transformer, batch first, Adam, clipped gradients, a schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        self.place = nn.Parameter(torch.zeros(64, 256))
        layer = nn.TransformerEncoderLayer(256, 8, 512, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(256, 1000)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.place))


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
loader = DataLoader(TensorDataset(torch.randint(1000, (1024, 65))), batch_size=16, shuffle=True, drop_last=True)
for epoch in range(10_000):
    for (x,) in loader:
        optimizer.zero_grad()
        scores = model(x[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
