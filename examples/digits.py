"""Train a small network on handwritten digits."""

import random

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUM_IMAGES = 60_000
EPOCHS = 5


def to_tensor(image):
    pixels = np.asarray(image, dtype=np.float32) / 255
    return torch.from_numpy(pixels).unsqueeze(0)


def normalize(tensor):
    return (tensor - 0.1307) / 0.3081


class Digits(Dataset):
    """scikit-learn's digits as 28x28 images, many more of them by small shifts and turns."""

    def __init__(self, images, labels, count, transforms, seed):
        self.transforms = transforms
        self.items = []
        rng = random.Random(seed)
        large = [Image.fromarray((image * 15.9).astype(np.uint8)).resize((28, 28), Image.BILINEAR) for image in images]
        for k in range(count):
            image = large[k % len(large)]
            if k >= len(large):
                shift = (rng.randint(-2, 2), rng.randint(-2, 2))
                image = image.rotate(rng.uniform(-12, 12), translate=shift)
            self.items.append((image, int(labels[k % len(large)])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        image, label = self.items[index]
        for transform in self.transforms:
            image = transform(image)
        return image, label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(28 * 28, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )

    def forward(self, x):
        return self.layers(x)


def accuracy(model, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for images, labels in loader:
            correct += (model(images).argmax(dim=1) == labels).sum().item()
            total += len(labels)
    model.train()
    return correct / total


def main():
    torch.manual_seed(0)
    digits = load_digits()
    split = 1500
    train_set = Digits(digits.images[:split], digits.target[:split], NUM_IMAGES, [to_tensor, normalize], seed=1)
    test_set = Digits(digits.images[split:], digits.target[split:], 297, [to_tensor, normalize], seed=2)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)

    model = Net()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())

    for epoch in range(EPOCHS):
        running = 0.0
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(images), labels)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch + 1}: loss {running / len(train_loader):.6f}")
    print(f"accuracy {accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
