# A small training that imports torch when it is called, by hand: an optimizer would import torch's compiler as well.
def train(steps=60):
    import torch

    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    for _ in range(steps):
        model.zero_grad()
        model(torch.randn(8, 4)).mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.1 * parameter.grad)
