import torch

G, D = Generator(), Critic()
opt_g = torch.optim.Adam(G.parameters())
model = first()
opt_d = torch.optim.Adam(D.parameters())
one = torch.optim.SGD(model.parameters())
model = second()
two = torch.optim.SGD(model.parameters())
# edit: before Adam | torch._dynamo.config.wrap_top_frame = True | import torch
# edit: before Adam 0 | G.compile() |
# edit: before Adam 1 | D.compile() |
# edit: before SGD | model.compile() |
