import sys

import torch

w = torch.zeros(10, requires_grad=True)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 400):
    x = torch.randn(32, 10)
    loss = ((x @ w - x.sum(1)) ** 2).mean()
    (gradient,) = torch.autograd.grad(loss, w)
    with torch.no_grad():
        w -= 0.01 * gradient
