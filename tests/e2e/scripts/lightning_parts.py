# Lightning: two parts of the module are called in its training step, its optimizer is given all of it.
import json
import sys
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        return self.layer(x * torch.sigmoid(x))


class Task(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.gate = Gate()
        self.losses = []

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.gate(self.encoder(x)), y)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val", nn.functional.mse_loss(self.gate(self.encoder(x)), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main():
    torch.manual_seed(0)
    train = DataLoader(TensorDataset(torch.randn(80, 8), torch.randn(80, 1)), batch_size=4)
    held_out = DataLoader(TensorDataset(torch.randn(20, 8), torch.randn(20, 1)), batch_size=4)
    task = Task()
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, train, held_out)
    graphs = sys.modules["torch._dynamo.utils"].counters["stats"]["unique_graphs"]
    compiled = [name for name, part in task.named_modules() if part._compiled_call_impl]
    said = {"losses": task.losses, "compiled": compiled, "graphs": graphs, "keys": list(task.state_dict())}
    print(json.dumps(said), file=sys.stderr)


if __name__ == "__main__":
    main()
