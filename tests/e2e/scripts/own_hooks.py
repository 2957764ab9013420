# Hooks everywhere, and functions of torch that the script replaces and puts back: all must do what they do without us.
import inspect
from collections import Counter

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

calls = Counter()
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
register_module_forward_hook(lambda *_: calls.update(["any forward"]))
model.register_forward_hook(lambda *_: calls.update(["forward"]))
model.register_full_backward_hook(lambda *_: calls.update(["backward"]))
model[0].weight.register_hook(lambda gradient: calls.update(["gradient"]))
register_optimizer_step_post_hook(lambda *_: calls.update(["any step"]))
optimizer.register_step_pre_hook(lambda *_: calls.update(["step"]))

call = nn.Module.__call__
backward = torch.Tensor.backward


def counted_call(self, *args, **kwargs):
    calls["call"] += self is model
    return call(self, *args, **kwargs)


def counted_backward(self, *args, **kwargs):
    calls["tensor backward"] += 1
    return backward(self, *args, **kwargs)


nn.Module.__call__ = counted_call
torch.Tensor.backward = counted_backward
assert "def step" in inspect.getsource(torch.optim.SGD.step)
assert "grad_tensors" in inspect.signature(torch.autograd.backward).parameters
assert isinstance(torch.jit.script(nn.Linear(4, 1))(torch.ones(1, 4)), torch.Tensor)
calls.clear()
for k in range(1, 31):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    optimizer.step()
    if k == 20:
        nn.Module.__call__, torch.Tensor.backward = call, backward
expected = {"any forward": 120, "call": 20, "tensor backward": 20}
expected |= dict.fromkeys(["forward", "backward", "gradient", "any step", "step"], 30)
assert calls == expected, calls
