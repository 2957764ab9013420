"""Sequences of unequal lengths, padded and masked; attention, AdamW, an average of the weights that is validated."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

NUM_WORDS, WIDTH, PAD = 20, 32, 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(NUM_WORDS, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, words):
        real = words != PAD
        x = self.words(words)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = self.norm(x + F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, :]))
        mean = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return self.head(self.dropout(mean))


def items(number):
    """Is the mean of the words above their middle?"""
    sequences = [torch.randint(1, NUM_WORDS, (length,)) for length in torch.randint(3, 17, (number,)).tolist()]
    return [(words, int(words.float().mean() > NUM_WORDS / 2)) for words in sequences]


def collate(batch):
    words, labels = zip(*batch, strict=True)
    return pad_sequence(words, batch_first=True, padding_value=PAD), torch.tensor(labels)


torch.manual_seed(4)
train_loader = DataLoader(items(1590), batch_size=16, shuffle=True, collate_fn=collate)
val_loader = DataLoader(items(400), batch_size=100, collate_fn=collate)
model = Net()
average = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
for epoch in range(20):
    for words, labels in train_loader:
        loss = F.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for mean, p in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(p.detach(), 0.05)
    with torch.no_grad():
        losses = [F.cross_entropy(average(words), labels).item() for words, labels in val_loader]
    print(f"epoch {epoch}: validation loss {sum(losses) / len(losses):.4f}")
