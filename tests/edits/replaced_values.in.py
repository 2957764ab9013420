from torch.optim import Adam

a = Adam(params, fused=False)
b = Adam(params, fused=True)
c = Adam(params, fused = (None), lr=0.1)
d = Adam(
    params,
    fused=False,  # was slow
)
# edit: add Adam fused=True
