"""A student of digits that learns from labels and from a teacher's soft targets; SGD with momentum."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

T, ALPHA = 4.0, 0.3


def net(width):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 10))


torch.manual_seed(1)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
train = torch.utils.data.Subset(data, range(1400))
held_out = torch.utils.data.Subset(data, range(1400, 1797))
loader = DataLoader(train, batch_size=16, shuffle=True)
val_loader = DataLoader(held_out, batch_size=397)

teacher = net(128)
# A teacher that has learnt in closed form: its last layer is a ridge regression on random features.
with torch.no_grad():
    x = torch.stack([train[i][0] for i in range(1400)])
    y = F.one_hot(torch.stack([train[i][1] for i in range(1400)]), 10).float()
    h = torch.relu(teacher[0](x))
    w = torch.linalg.solve(h.T @ h + 0.1 * torch.eye(128), h.T @ (y - 0.1))
    teacher[3].weight.copy_(10 * w.T)
    teacher[3].bias.zero_()
teacher.eval()

student = net(32)
optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9)
for epoch in range(10):
    student.train()
    for x, y in loader:
        with torch.no_grad():
            soft = teacher(x)
        out = student(x)
        hard_loss = F.cross_entropy(out, y)
        soft_loss = F.kl_div(F.log_softmax(out / T, 1), F.softmax(soft / T, 1), reduction="batchmean") * T * T
        loss = ALPHA * hard_loss + (1 - ALPHA) * soft_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    student.eval()
    with torch.no_grad():
        right = sum((student(x).argmax(1) == y).sum().item() for x, y in val_loader)
    print(f"epoch {epoch}: accuracy {right / 397:.4f}")
