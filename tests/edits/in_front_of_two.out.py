import torch

G, D = Generator(), Critic()
torch._dynamo.config.wrap_top_frame = True
G.compile()
D.compile()
opt_g = torch.optim.Adam(G.parameters())
model = first()
opt_d = torch.optim.Adam(D.parameters())
model.compile()
one = torch.optim.SGD(model.parameters())
model = second()
model.compile()
two = torch.optim.SGD(model.parameters())
# edit: before Adam | torch._dynamo.config.wrap_top_frame = True | import torch
# edit: before Adam 0 | G.compile() |
# edit: before Adam 1 | D.compile() |
# edit: before SGD | model.compile() |
