"""A GAN on handwritten digits: two networks, two optimizers, one loop."""

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUM_IMAGES, LATENT, BATCH, EPOCHS = 12_800, 64, 64, 6


def load(folder):
    """(N, 784) bytes: MNIST, or scikit-learn's digits where it is missing."""
    path = Path(folder) / "mnist" / "train-images-idx3-ubyte.gz"
    if path.is_file():
        with gzip.open(path) as file:
            return np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)[:NUM_IMAGES]
    from sklearn.datasets import load_digits

    print(f"{path} is missing (say where the data are with --data DIR); using scikit-learn's digits, repeated")
    images = (load_digits().images * 15.9).astype(np.uint8).repeat(4, axis=1).repeat(4, axis=2)[:, 2:-2, 2:-2]
    return np.tile(images.reshape(-1, 784), (8, 1))[:NUM_IMAGES]


class Images(Dataset):
    def __init__(self, pixels):
        self.pixels = pixels

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return torch.tensor(self.pixels[index], dtype=torch.float32) / 127.5 - 1


def networks():
    generator = nn.Sequential(
        nn.Linear(LATENT, 256),
        nn.LeakyReLU(0.2),
        nn.Linear(256, 512),
        nn.LeakyReLU(0.2),
        nn.Linear(512, 784),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1), nn.Sigmoid()
    )
    return generator, discriminator


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(Images(load(args.data)), batch_size=BATCH, shuffle=True)
    generator, discriminator = (net.to(device) for net in networks())
    adversarial_loss = nn.BCELoss()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = 0.0
        for real in loader:
            real = real.to(device)
            valid = torch.ones(real.size(0), 1, device=device)
            fake = torch.zeros(real.size(0), 1, device=device)

            optimizer_g.zero_grad()
            generated = generator(torch.randn(real.size(0), LATENT, device=device))
            g_loss = adversarial_loss(discriminator(generated), valid)
            g_loss.backward()
            optimizer_g.step()

            optimizer_d.zero_grad()
            real_loss = adversarial_loss(discriminator(real), valid)
            fake_loss = adversarial_loss(discriminator(generated.detach()), fake)
            d_loss = (real_loss + fake_loss) / 2
            d_loss.backward()
            optimizer_d.step()
            total += d_loss.item() + g_loss.item()
        seconds, count = time.perf_counter() - begun, len(loader.dataset)
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, {count} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()
