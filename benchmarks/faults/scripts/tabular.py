"""A table of patients, a regression with batch normalisation and dropout, batches of 8, SGD, one cycle of rates."""

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
table, target = load_diabetes(return_X_y=True)
x = torch.tensor(table, dtype=torch.float32) * 20
y = torch.tensor((target - target.mean()) / target.std(), dtype=torch.float32).unsqueeze(1)
order = torch.randperm(len(x))
x, y = x[order], y[order]
train_set, val_set = TensorDataset(x[:400], y[:400]), TensorDataset(x[400:], y[400:])
train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
val_loader = DataLoader(val_set, batch_size=64)

model = nn.Sequential(
    nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=1000, cycle_momentum=False)

for epoch in range(20):
    model.train()
    total = 0.0
    for features, value in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(features), value)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        error = sum(criterion(model(features), value).item() for features, value in val_loader)
    print(f"{epoch:3d} {total / len(train_loader):.4f} {error:.4f}")
