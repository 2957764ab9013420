"""A GAN of digits with an average of the generator, samples and a checkpoint with entries after each epoch; two Adams."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
images = torch.tensor(load_digits(return_X_y=True)[0], dtype=torch.float32) / 8 - 1
loader = DataLoader(TensorDataset(images[:960]), batch_size=32, shuffle=True)
generator = nn.Sequential(nn.Linear(8, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 64), nn.Tanh())
critic = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
average = {name: value.clone() for name, value in generator.state_dict().items()}
criterion = nn.BCEWithLogitsLoss()
of_critic = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.5, 0.999))
of_generator = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.999))
fixed = torch.randn(16, 8)
for epoch in range(8):
    for (real,) in loader:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), 8))
        of_critic.zero_grad()
        real_loss = criterion(critic(real), ones)
        real_loss.backward()
        fake_loss = criterion(critic(fake.detach()), zeros)
        fake_loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        loss = criterion(critic(fake), ones)
        loss.backward()
        of_generator.step()
        for name, value in generator.state_dict().items():
            average[name].copy_(0.95 * average[name] + 0.05 * value)
    generator.eval()
    with torch.no_grad():
        samples = generator(fixed)
    generator.train()
    print(f"epoch {epoch} critic {real_loss + fake_loss:.3f} generator {loss:.3f} mean {samples.mean():.3f}")
    torch.save({"generator": generator.state_dict(), "average": average, "adam": of_generator.state_dict()}, "gan.pt")
