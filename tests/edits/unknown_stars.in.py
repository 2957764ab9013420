from torch.optim import Adam

a = Adam(params, **settings)
# edit: add Adam fused=True
# refused: fused may be in a ** argument of the call; write it out
