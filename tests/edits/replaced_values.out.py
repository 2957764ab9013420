from torch.optim import Adam

a = Adam(params, fused=True)
b = Adam(params, fused=True)
c = Adam(params, fused = (True), lr=0.1)
d = Adam(
    params,
    fused=True,  # was slow
)
# edit: add Adam fused=True
