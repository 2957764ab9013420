"""What changes when the samples of one global batch are dealt out to the processes by length (docs/training.md).

    torchrun --standalone --nproc-per-node 2 benchmarks/ranks/dealt.py

Prints what the slowest process has to compute, and by how much losses and parameters differ after `STEPS` steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DistributedSampler

SAMPLES, BATCH, STEPS, WORDS, WIDTH = 4096, 16, 40, 500, 32

Step = Sequence[Sequence[int]]
"""Rank -> its samples."""


class Kind(NamedTuple):
    """A way to train."""

    dropout: float = 0.0
    over_tokens: bool = False
    batch_norm: bool = False


KINDS = {
    "mean over samples": Kind(),
    "mean over tokens": Kind(over_tokens=True),
    "dropout": Kind(dropout=0.1),
    "BatchNorm": Kind(batch_norm=True),
}


class Net(nn.Module):
    """A transformer layer, and classes of the texts or of each token."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, kind.dropout, batch_first=True)
        self.norm = nn.BatchNorm1d(WIDTH) if kind.batch_norm else nn.Identity()
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """The loss of texts (batch, length), padded with 0."""
        padding = x == 0
        hidden = self.layer(self.embedding(x), src_key_padding_mask=padding)
        if self.kind.over_tokens:
            return cross_entropy(self.head(hidden)[:, :-1].flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
        known = ~padding[..., None]
        return cross_entropy(self.head(self.norm((hidden * known).sum(1) / known.sum(1))), labels)


def main() -> None:
    """All kinds, as drawn and dealt."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    drawn = torch.Generator().manual_seed(0)
    lengths = torch.empty(SAMPLES).log_normal_(3.5, 0.8, generator=drawn).clamp(4, 200).int().tolist()
    texts = [torch.randint(1, WORDS, (length,), generator=drawn) for length in lengths]
    labels = torch.randint(4, (SAMPLES,), generator=drawn)
    orders = [list(DistributedSampler(texts, world, one)) for one in range(world)]
    plain = [[order[at : at + BATCH] for order in orders] for at in range(0, STEPS * BATCH, BATCH)]
    dealt = [dealt_out(step, lengths) for step in plain]

    def train(steps: Sequence[Step], kind: Kind) -> tuple[Tensor, Tensor]:
        """(steps,) means of the ranks' losses, and (parameters,) at the end."""
        torch.manual_seed(1)
        model = DistributedDataParallel(Net(kind))
        torch.manual_seed(rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = torch.empty(STEPS)
        for at, step in enumerate(steps):
            loss = model(pad_sequence([texts[i] for i in step[rank]], batch_first=True), labels[step[rank]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[at] = loss.detach()
        dist.all_reduce(losses)
        return losses / world, torch.cat([one.detach().flatten() for one in model.parameters()])

    for name, kind in KINDS.items():
        (losses, ours), (others, theirs) = train(plain, kind), train(dealt, kind)
        if rank == 0:
            apart = float(((losses - others) / losses).abs().max()), float((ours - theirs).norm() / ours.norm())
            print(f"{name}: losses differ by up to {apart[0]:.1e}, parameters by {apart[1]:.1e}")
    if rank == 0:
        for name, steps in {"as drawn": plain, "dealt out by length": dealt}.items():
            of_each = [[[lengths[i] for i in mine] for mine in step] for step in steps]
            padded = BATCH * sum(max(max(mine) for mine in step) for step in of_each)
            print(f"{name}: {padded} padded tokens, {sum(max(map(sum, step)) for step in of_each)} without padding")
    dist.destroy_process_group()


def dealt_out(step: Step, lengths: Sequence[int]) -> Step:
    """The same samples, as many for each rank, of like lengths."""
    ordered = sorted((i for mine in step for i in mine), key=lengths.__getitem__)
    return [ordered[rank :: len(step)] for rank in range(len(step))]


if __name__ == "__main__":
    main()
