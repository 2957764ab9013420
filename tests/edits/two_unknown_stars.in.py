from torch.optim import Adam

a = Adam(params, **one, **two)
# edit: add Adam fused=True
# refused: more than one ** argument of this call may hold fused
