"""A loop that talks too much: accuracy, confusions, norms and averages as Python numbers, printed in each step."""

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_IMAGES, BATCH, EPOCHS = 51_200, 64, 5


def load(folder):
    """(N, 784) in [0, 1] and labels: MNIST, or scikit-learn's digits where it is missing."""
    mnist = Path(folder) / "mnist"
    if mnist.is_dir():
        with gzip.open(mnist / "train-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)[:NUM_IMAGES]
        with gzip.open(mnist / "train-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)[:NUM_IMAGES]
    else:
        from sklearn.datasets import load_digits

        print(f"{mnist} is missing (say where the data are with --data DIR); using scikit-learn's digits, repeated")
        pictures, labels = load_digits(return_X_y=True)
        images = (pictures.reshape(-1, 8, 8) * 15.9).astype(np.uint8).repeat(4, 1).repeat(4, 2)[:, 2:-2, 2:-2]
        images = np.tile(images.reshape(-1, 784), (28, 1))[:NUM_IMAGES]
        labels = np.tile(labels, 28)[:NUM_IMAGES]
    return torch.tensor(images, dtype=torch.float32) / 255, torch.tensor(labels.astype(np.int64))


class AverageMeter:
    def __init__(self):
        self.sum = self.count = self.avg = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk):
    _, predicted = output.topk(max(topk), 1)
    correct = predicted.t().eq(target.view(1, -1))
    return [100.0 * correct[:k].reshape(-1).float().sum().item() / target.size(0) for k in topk]


def network():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(TensorDataset(*load(args.data)), batch_size=BATCH, shuffle=True)
    model = network().to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        losses, top1, top5 = AverageMeter(), AverageMeter(), AverageMeter()
        confusion = torch.zeros(10, 10, dtype=torch.int64)
        for step, (images, target) in enumerate(loader):
            images, target = images.to(device), target.to(device)
            output = model(images)
            loss = criterion(output, target)
            acc1, acc5 = accuracy(output, target, topk=(1, 5))
            losses.update(loss.item(), images.size(0))
            top1.update(acc1, images.size(0))
            top5.update(acc5, images.size(0))
            for expected, guessed in zip(target, output.argmax(1), strict=True):
                confusion[expected.item(), guessed.item()] += 1
            optimizer.zero_grad()
            loss.backward()
            norm = sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5
            optimizer.step()
            print(
                f"[{epoch}][{step}/{len(loader)}] loss {losses.avg:.4f} top1 {top1.avg:.2f} top5 {top5.avg:.2f} "
                f"|g| {norm:.3f} worst class {(confusion.diag() / confusion.sum(1).clamp(min=1)).argmin().item()}",
                file=sys.stderr,
            )
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {losses.avg:.4f}, {len(loader.dataset)} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()
