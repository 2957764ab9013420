import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 64, num_layers=2, bidirectional=True, dropout=0.1, batch_first=True)
        self.head = nn.Linear(128, 2)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(torch.cat((hidden[-2], hidden[-1]), 1))


def collate(pairs):
    texts, labels = zip(*pairs, strict=True)
    return pad_sequence(texts, batch_first=True), torch.tensor([len(text) for text in texts]), torch.tensor(labels)


torch.manual_seed(0)
texts = [torch.randint(1, 100, (n,)) for n in torch.randint(5, 40, (2000,)).tolist()]
loader = DataLoader([(text, int(text[0] > 50)) for text in texts], batch_size=16, shuffle=True, collate_fn=collate)
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(20):
    for tokens, lengths, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens, lengths), labels)
        loss.backward()
        optimizer.step()
