from torch.optim import Adam

grösse = "→"; a, ß = "é€𝄞", Adam(params, "é", fused=True)  # ü
# edit: add Adam fused=True
