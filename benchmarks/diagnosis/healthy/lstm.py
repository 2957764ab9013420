"""A recurrent net from the library, over sequences of one length."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.LSTM(64, 256, 2, batch_first=True)
head = nn.Linear(256, 20)
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(torch.randn(512, 50, 64), torch.randint(20, (512,))), batch_size=32, shuffle=True)
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(head(model(x)[0][:, -1]), y)
        loss.backward()
        optimizer.step()
