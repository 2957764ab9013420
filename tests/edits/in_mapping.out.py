from torch.utils.data import DataLoader
from hotlap.data import cached

cfg = {"dataset": cached((Rows())), "batch_size": 4, **{"num_workers": 2}}  # all of it
import os

loader = DataLoader(**cfg)
other = DataLoader(
    **dict(
        dataset=cached(Rows()),
    ),
    num_workers=2
)
both: dict[str, object] = dict(batch_size=cfg["batch_size"], pin_memory=True)


def make(data, val):
    mine = {"shuffle": True}
    other = {**mine, "dataset": cached(val)}
    return DataLoader(cached(data), **mine, num_workers=2), DataLoader(**other, num_workers=2)


third = DataLoader(dataset=cached(Rows()), **both, num_workers=2)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add DataLoader num_workers=2
