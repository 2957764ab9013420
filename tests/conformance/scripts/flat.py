import torch
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16),
    torch.nn.ReLU(),
    torch.nn.Linear(16, 1),
)
optimizer = SGD(
    model.parameters(),
    lr=0.1,
    momentum=0.9,  # as in the paper
)
loader = DataLoader(
    dataset=TensorDataset(torch.randn(64, 8), torch.randn(64, 1)),
    batch_size=16,
)
for _ in range(3):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        out = model(x)  # (B, 1)
        loss = (out - y).square().mean()
        loss.backward()
        optimizer.step()
