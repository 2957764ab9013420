import torch as hotlap_torch

hotlap_torch.set_num_threads(1)

try:
    import torch
except ImportError:
    torch = None


def forward(model, x):
    with hotlap_torch.autocast("cpu", dtype=hotlap_torch.bfloat16):
        y = model(x).to(hotlap_torch.float32)
    return y


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .to(torch.float32) | import torch
# edit: after torch.set_num_threads(1) | import torch
