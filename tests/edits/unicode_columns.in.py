from torch.optim import Adam

grösse = "→"; a, ß = "é€𝄞", Adam(params, "é")  # ü
# edit: add Adam fused=True
