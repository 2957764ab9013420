# An input that comes again in each epoch beside noise that does not, and a validation by hand, of which a frozen part's
# features are kept.
import torch

torch.manual_seed(0)
x = torch.rand(160, 8)
held_out, kept_noise = torch.rand(32, 8), torch.randn(32, 8)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x, noise):
        return self.layer(x + noise)


model, frozen, features = Model(), torch.nn.Linear(8, 8).requires_grad_(False), None
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _epoch in range(100):
    for rows in torch.randperm(len(x)).split(16):
        loss = (model(x[rows], torch.randn(16, 8)) - x[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        features = frozen(held_out) if features is None else features
        print(float(model(held_out, kept_noise).square().mean()), float(model.layer(features).square().mean()))
