import torch

steps = int(input("How many steps? "))
model = torch.nn.Linear(4, 1)
for _ in range(steps):
    model.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.1 * parameter.grad)
