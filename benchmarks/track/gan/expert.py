"""The GAN by hand: images resident, fused Adam, no gradients of the discriminator while the generator learns."""

import argparse
import time

import torch
from torch import nn
from train import BATCH, EPOCHS, LATENT, load, networks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = torch.tensor(load(args.data), dtype=torch.float32, device=device).div_(127.5).sub_(1)
    generator, discriminator = (net.to(device) for net in networks())
    settings = {"lr": 2e-4, "betas": (0.5, 0.999), "fused": True}
    optimizer_g = torch.optim.Adam(generator.parameters(), **settings)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), **settings)
    bce = nn.functional.binary_cross_entropy
    valid, fake = torch.ones(BATCH, 1, device=device), torch.zeros(BATCH, 1, device=device)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = torch.zeros((), device=device)
        batches = torch.randperm(len(images), device=device).split(BATCH)
        for batch in batches:
            real = images[batch]
            ones, zeros = valid[: len(real)], fake[: len(real)]
            discriminator.requires_grad_(False)
            optimizer_g.zero_grad()
            generated = generator(torch.randn(len(real), LATENT, device=device))
            g_loss = bce(discriminator(generated), ones)
            g_loss.backward()
            optimizer_g.step()
            discriminator.requires_grad_(True)
            optimizer_d.zero_grad()
            # Both halves in one pass: without batch normalisation they do not see each other.
            verdicts = discriminator(torch.cat([real, generated.detach()]))
            d_loss = bce(verdicts, torch.cat([ones, zeros]))
            d_loss.backward()
            optimizer_d.step()
            total += d_loss.detach() + g_loss.detach()
        mean = total.item() / len(batches)
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {mean:.4f}, {len(images)} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()
