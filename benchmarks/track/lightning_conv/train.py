"""A convolutional net on handwritten digits with Lightning."""

import argparse
import gzip
import time
import warnings
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUM_IMAGES, EPOCHS = 6400, 4
warnings.filterwarnings("ignore", message=".*does not have many workers.*")


def load(folder):
    mnist = Path(folder) / "mnist"
    if mnist.is_dir():
        with gzip.open(mnist / "train-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
        with gzip.open(mnist / "train-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        return images[:NUM_IMAGES], labels[:NUM_IMAGES].astype(np.int64)
    from sklearn.datasets import load_digits

    print(f"{mnist} is missing (say where the data are with --data DIR); using scikit-learn's digits, repeated")
    pictures, labels = load_digits(return_X_y=True)
    images = (pictures.reshape(-1, 8, 8) * 15.9).astype(np.uint8).repeat(4, 1).repeat(4, 2)[:, 2:-2, 2:-2]
    return np.tile(images, (4, 1, 1))[:NUM_IMAGES], np.tile(labels, 4)[:NUM_IMAGES]


class Digits(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = torch.tensor(self.images[index], dtype=torch.float32).unsqueeze(0) / 255
        return (image - 0.1307) / 0.3081, int(self.labels[index])


class LitNet(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.log("train_loss", loss, prog_bar=True)
        self.log("train_acc", (logits.argmax(1) == y).float().mean(), prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class SayEpochs(L.Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        self.begun = time.perf_counter()

    def on_train_epoch_end(self, trainer, pl_module):
        seconds = time.perf_counter() - self.begun
        loss, count = float(trainer.callback_metrics["train_loss"]), len(trainer.train_dataloader.dataset)
        print(f"epoch {trainer.current_epoch + 1}: loss {loss:.4f}, {count} samples in {seconds:.3f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    L.seed_everything(0, verbose=False)
    loader = DataLoader(Digits(*load(args.data)), batch_size=64, shuffle=True)
    trainer = L.Trainer(
        max_epochs=EPOCHS, logger=False, enable_checkpointing=False, enable_model_summary=False, callbacks=[SayEpochs()]
    )
    trainer.fit(LitNet(), loader)


if __name__ == "__main__":
    main()
