# Gradients of a function, parameters in a dictionary: no module is called and no optimizer steps.
import torch
from torch import nn
from torch.func import functional_call, grad_and_value

model = nn.Linear(6, 2)
weights = {name: p.detach().clone() for name, p in model.named_parameters()}


def loss_of(weights, x):
    return functional_call(model, weights, (x,)).pow(2).mean()


step = grad_and_value(loss_of)
for _ in range(200):
    gradients, loss = step(weights, torch.randn(8, 6))
    weights = {name: w - 0.05 * gradients[name] for name, w in weights.items()}
