# refused.py strided: a parameter with gaps in memory, of which torch's fused Adam on the CPU misses rows.
# refused.py nan: a loss that is NaN from the first step on.
import sys

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
layer = torch.nn.Linear(16, 64)
layer.weight = torch.nn.Parameter(torch.randn(64, 32)[:, ::2])
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
nothing = float("nan") if sys.argv[1] == "nan" else 0.0
for _ in range(200):
    optimizer.zero_grad()
    (layer(torch.randn(8, 16)) + nothing).square().mean().backward()
    optimizer.step()
