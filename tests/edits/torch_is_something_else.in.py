try:
    import torch
except ImportError:
    torch = None


def forward(model, x):
    y = model(x)
    return y


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .to(torch.float32) | import torch
# edit: after torch.set_num_threads(1) | import torch
