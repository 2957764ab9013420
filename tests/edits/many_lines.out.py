import torch

opt = torch.optim.AdamW(
    [
        {"params": [p]},
    ],
    lr=1e-3,  # found by hand
    fused=True,
    foreach=None,
)
other = torch.optim.AdamW(
    params,
    lr=1e-3,  # no comma here
    fused=True,
    foreach=None
    # and a last word
)
hugging = torch.optim.AdamW(params,
                            lr=1e-3,
                            fused=True,
                            foreach=None)
trailing = torch.optim.AdamW(
    params, lr=1e-3, fused=True, foreach=None,
)
odd = torch.optim.AdamW(
    params,
    (0.1),
    fused=True,
    foreach=None, )
chained = (
    torch.optim
    .AdamW(params, fused=True, foreach=None)
)
# edit: add AdamW fused=True
# edit: add AdamW foreach=None
