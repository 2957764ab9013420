# Lightning's Trainer: fit, with a validation after each epoch that takes a known time.
import time
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


class Task(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, index):
        x, y = batch
        time.sleep(0.005)
        return nn.functional.mse_loss(self.layer(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        time.sleep(0.010)
        self.log("val", nn.functional.mse_loss(self.layer(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    train = DataLoader(TensorDataset(torch.randn(80, 8), torch.randn(80, 1)), batch_size=4)
    held_out = DataLoader(TensorDataset(torch.randn(20, 8), torch.randn(20, 1)), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Task(), train, held_out)
