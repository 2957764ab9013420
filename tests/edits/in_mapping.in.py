from torch.utils.data import DataLoader

cfg = {"dataset": (Rows()), "batch_size": 4, **{"num_workers": 0}}  # all of it
import os

loader = DataLoader(**cfg)
other = DataLoader(
    **dict(
        dataset=Rows(),
    )
)
both: dict[str, object] = dict(batch_size=cfg["batch_size"], pin_memory=True)


def make(data, val):
    mine = {"shuffle": True}
    other = {**mine, "dataset": val}
    return DataLoader(data, **mine), DataLoader(**other, num_workers=3)


third = DataLoader(dataset=Rows(), **both)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add DataLoader num_workers=2
