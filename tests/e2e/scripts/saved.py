# What training makes besides the trained weights: statistics, two averages of the weights, a schedule, a validation.
import copy

import torch
from torch.utils.data import DataLoader, TensorDataset


class Average:
    """A helper of the script's own, with tensors that no module holds."""

    def __init__(self, model):
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].mul_(0.9).add_(p.detach(), alpha=0.1)

    def state_dict(self):
        return self.shadow


def main():
    torch.manual_seed(0)
    x = torch.randn(640, 8)
    y = (x[:, :3] * torch.tensor([1.0, -2.0, 0.5])).sum(1, keepdim=True).tanh()
    loader = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=16, shuffle=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32),
        torch.nn.Dropout(0.1),
        torch.nn.BatchNorm1d(32),
        torch.nn.Tanh(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(32, 1),
    )
    copied = copy.deepcopy(model)
    average = Average(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1000)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for epoch in range(100):
        for inputs, target in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1000.0)
            optimizer.step()
            schedule.step()
            average.update(model)
            with torch.no_grad():
                for old, new in zip(copied.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, 0.1)
        model.eval()
        with torch.no_grad():
            held_out = torch.nn.functional.mse_loss(model(x[512:]), y[512:])
        model.train()
        plateau.step(held_out)
        state = model.state_dict().items()
        best = {name: value.clone() for name, value in state if value.is_floating_point()}
        parts = {"model": model.state_dict(), "average": average.shadow, "optimizer": optimizer.state_dict()}
        torch.save(parts, "last.pt")
        print(f"epoch {epoch}: validation loss {held_out:.4f} ({len(best)} tensors)")


main()
