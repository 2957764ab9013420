import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD = 0


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(200, 64, padding_idx=PAD)
        self.layers = nn.ModuleList(nn.Conv1d(64, 64, 5, padding=2) for _ in range(3))
        self.head = nn.Linear(64, 5)

    def forward(self, tokens):
        mask = (tokens != PAD).unsqueeze(1)  # (B, 1, T)
        hidden = self.embedding(tokens).transpose(1, 2)  # (B, 64, T)
        for layer in self.layers:
            hidden = torch.relu(layer(hidden)) * mask
        return self.head(hidden.transpose(1, 2))


def collate(pairs):
    tokens, tags = zip(*pairs, strict=True)
    return pad_sequence(tokens, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=-100)


torch.manual_seed(0)
lengths = torch.randint(5, 300, (4000,)).tolist()
sentences = [torch.randint(1, 200, (n,)) for n in lengths]
loader = DataLoader([(s, s % 5) for s in sentences], batch_size=4, shuffle=True, collate_fn=collate)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
for _ in range(20):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x).reshape(-1, 5), y.reshape(-1))
        loss.backward()
        optimizer.step()
