"""Images are decoded in the training process."""

import io
import sys

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,))
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()

FORMAT = ("JPEG", "PNG", "BMP")[VARIATION]
pixels = np.random.default_rng(0).integers(0, 255, (256, 256, 3), dtype=np.uint8)
buffer = io.BytesIO()
Image.fromarray(pixels).save(buffer, FORMAT)


class Items(Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        image = Image.open(io.BytesIO(buffer.getvalue())).convert("RGB").resize((32, 32))
        assert image.size == (32, 32)
        return inputs[index], targets[index]


loader = DataLoader(Items(), batch_size=32, shuffle=True, num_workers=0)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
