import torch

opt = torch.optim.AdamW(
    [
        {"params": [p]},
    ],
    lr=1e-3,  # found by hand
)
other = torch.optim.AdamW(
    params,
    lr=1e-3  # no comma here
    # and a last word
)
hugging = torch.optim.AdamW(params,
                            lr=1e-3)
trailing = torch.optim.AdamW(
    params, lr=1e-3,
)
odd = torch.optim.AdamW(
    params,
    (0.1), )
chained = (
    torch.optim
    .AdamW(params)
)
# edit: add AdamW fused=True
# edit: add AdamW foreach=None
