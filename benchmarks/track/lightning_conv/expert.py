"""The convolutional net by hand, still with Lightning: images resident, whole batches, fused Adam, few logs."""

import argparse
import math

import lightning as L
import torch
from torch import nn
from train import EPOCHS, LitNet, SayEpochs, load


class Batches:
    """Whole batches of what is on the device already; iterated anew for each epoch."""

    def __init__(self, images, labels, size):
        self.dataset = labels  # what the epochs' line counts
        self.images, self.labels, self.size = images, labels, size

    def __len__(self):
        return math.ceil(len(self.labels) / self.size)

    def __iter__(self):
        for batch in torch.randperm(len(self.labels), device=self.labels.device).split(self.size):
            yield self.images[batch], self.labels[batch]


class Lean(LitNet):
    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.log("train_loss", loss.detach(), on_step=False, on_epoch=True, batch_size=len(y))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    L.seed_everything(0, verbose=False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, labels = load(args.data)
    x = torch.tensor(images, dtype=torch.float32, device=device).unsqueeze(1).div_(255).sub_(0.1307).div_(0.3081)
    x = x.contiguous(memory_format=torch.channels_last)
    trainer = L.Trainer(
        max_epochs=EPOCHS, logger=False, enable_checkpointing=False, enable_model_summary=False,
        enable_progress_bar=False, benchmark=True, callbacks=[SayEpochs()],
    )  # fmt: skip
    trainer.fit(Lean().to(memory_format=torch.channels_last), Batches(x, torch.tensor(labels, device=device), 64))


if __name__ == "__main__":
    main()
