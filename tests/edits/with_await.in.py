import torch


async def f(x):
    y = await model(x)


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: gives up control
